use super::{
    super::{
        canonical::{
            canonical,
            tests::{types, value},
        },
        collection::{list, map},
        validate::validate,
    },
    pace::PIECE_UNITS,
    *,
};
use crate::io::{ManualClock, Random};
use proptest::prelude::*;

/// What becomes of a value in turns without time, each of which does one piece, and how many of
/// them that takes.
fn bit_by_bit(ty: &CqlType, purpose: Purpose, given: &[u8]) -> (LargeValue, usize) {
    let clock = ManualClock::at(0);
    let mut work = LargeWork::new(ty, purpose, given);
    for turn in 1.. {
        if let Some(done) = work.go_on(given, &mut TimeSlice::new(&clock, 0)) {
            return (done, turn);
        }
    }
    unreachable!("it ends")
}

/// The value with a byte that is another one, or missing, or too much; or the value as it is.
fn spoilt(mut value: Vec<u8>, random: &mut Random) -> Vec<u8> {
    let place = usize::try_from(random.below(value.len() as u64 + 1)).unwrap();
    match random.below(4) {
        0 => value.truncate(place),
        1 => value.push(0),
        2 => value.iter_mut().skip(place).take(1).for_each(|byte| *byte ^= 0xFF),
        _ => {}
    }
    value
}

proptest! {
    #[test]
    fn what_is_done_bit_by_bit_is_what_is_done_at_once(ty in types(), seed in any::<u64>()) {
        let random = &mut Random(seed);
        for _ in 0..20 {
            let value = value(&ty, random);
            let given = spoilt(value, random);
            let checked = validate(&ty, &given);
            let at_once = checked.clone().and_then(|()| canonical(&ty, &given));
            let (whole, _) = bit_by_bit(&ty, Purpose::Whole, &given);
            let stored = whole.stored().map(Option::unwrap);
            prop_assert_eq!(stored, at_once.as_deref().map_err(Clone::clone), "{}", &ty);
            let (elements, _) = bit_by_bit(&ty, Purpose::AsGiven, &given);
            prop_assert_eq!(elements.checked(), checked.map(|()| &*given), "{}", &ty);
            prop_assert_eq!(elements.stored().unwrap_or(None), None);
        }
    }

    #[test]
    fn many_runs_are_merged(seed in any::<u64>(), count in 0u64..300, different in 1u64..300) {
        let random = &mut Random(seed);
        let items: Vec<_> = (0..count).map(|number| {
            let times = usize::try_from(1 + number % 3).unwrap();
            let long = random.below(different).to_string().repeat(times);
            (long, number.to_string())
        }).collect();
        let text = || Box::new(CqlType::Text);
        let keys: Vec<_> = items.iter().map(|(key, _)| key).collect();
        for (ty, given) in [
            (CqlType::Set(text()), list(&keys)),
            (CqlType::Map(text(), text()), map(&items)),
        ] {
            let (whole, _) = bit_by_bit(&ty, Purpose::Whole, &given);
            prop_assert_eq!(whole.checked().unwrap(), &*canonical(&ty, &given).unwrap());
        }
    }
}

#[test]
fn each_step_is_cut() {
    const COUNT: usize = 1_000;
    let ty = CqlType::Set(Box::new(CqlType::Int));
    let of = |purpose, number: fn(u32) -> u32| {
        let items: Vec<_> =
            (0..u32::try_from(COUNT).unwrap()).map(|at| number(at).to_be_bytes()).collect();
        bit_by_bit(&ty, purpose, &list(&items)).1
    };
    let checked = of(Purpose::AsGiven, |number| number);
    let in_order = of(Purpose::Whole, |number| number);
    let in_disorder = of(Purpose::Whole, |number| number.wrapping_mul(0x9E37_79B1) >> 1);
    // Each item is a unit to check, a unit to see that runs are in order, and two to merge them.
    // A run is nearly a piece.
    let (turns, runs) = (COUNT / PIECE_UNITS as usize, COUNT * 8 / PIECE_BYTES / 2);
    println!("checked: {checked}, in order: {in_order}, in disorder: {in_disorder} turns");
    assert!(checked >= turns, "checking");
    assert!(in_order >= checked + runs + turns, "runs, and a look at them");
    assert!(in_disorder >= checked + runs + 2 * turns, "runs, and merging them");
    assert!(in_disorder <= 10 * turns, "pieces are not tiny");
}

#[test]
fn keys_longer_than_a_piece_are_put_in_order_and_looked_at_one_by_one() {
    let (text, random) = (|| Box::new(CqlType::Text), &mut Random(11));
    for count in 0..40 {
        let keys: Vec<_> = (0..count)
            .map(|_| {
                let length = usize::try_from(random.below(3 * PIECE_BYTES as u64)).unwrap();
                random.below(3).to_string().repeat(length)
            })
            .collect();
        let values = (0..count).map(|number: usize| number.to_string());
        let pairs: Vec<_> = keys.iter().zip(values).collect();
        let (set, pairs) = (list(&keys), map(&pairs));
        for (ty, given) in [(CqlType::Set(text()), &set), (CqlType::Map(text(), text()), &pairs)] {
            let (whole, _) = bit_by_bit(&ty, Purpose::Whole, given);
            let expected = canonical(&ty, given).unwrap();
            assert_eq!(whole.stored().unwrap().unwrap(), &*expected, "{keys:?}");
        }
    }
    let turns = |first: &str, second: &str| {
        let keys = [first, second].map(|letter| letter.repeat(100 * PIECE_BYTES));
        bit_by_bit(&CqlType::Set(text()), Purpose::Whole, &list(&keys)).1
    };
    // They are copied twice. To see whether they are in order each is looked at, and once more if
    // they are not, and there is a pause after each.
    let copying = 2 * 2 * 100 * PIECE_BYTES / COPY_BYTES;
    let (in_order, in_disorder) = (turns("a", "b"), turns("b", "a"));
    assert!(in_order >= copying + 14, "{in_order} turns");
    assert!(in_disorder >= copying + 18, "{in_disorder} turns");
}

#[test]
fn a_value_inside_of_another_one_is_cut() {
    let number = |at: u32| (at.wrapping_mul(0x9E37_79B1) >> 1).to_be_bytes();
    let items: Vec<_> = (0..1_000).map(number).collect();
    let set = CqlType::Set(Box::new(CqlType::Int));
    let alone = bit_by_bit(&set, Purpose::Whole, &list(&items)).1;
    let listed = CqlType::List(Box::new(set.clone()));
    let (inside, turns) = bit_by_bit(&listed, Purpose::Whole, &list(&[list(&items)]));
    assert!(turns >= alone, "{turns} turns inside and {alone} alone");
    let stored = canonical(&set, &list(&items)).unwrap().into_owned();
    assert_eq!(inside.checked().unwrap(), list(&[stored]));
}

/// Of three items, one is mostly more than half of the value.
#[test]
fn items_that_are_most_of_a_value_are_formed_wherever_they_are() {
    let number = |at: u32| (at.wrapping_mul(0x9E37_79B1) >> 1).to_be_bytes();
    let set = CqlType::Set(Box::new(CqlType::Int));
    let types = [
        CqlType::List(Box::new(set.clone())),
        CqlType::Tuple(vec![set.clone(), set.clone(), set.clone()]),
    ];
    let counts = [0, 1, 9, 60, 61, 500];
    for (first, second, third) in
        counts.iter().flat_map(|a| counts.iter().flat_map(|b| counts.map(|c| (*a, *b, c))))
    {
        let sets = [first, second, third].map(|count| {
            // Each number is there twice, so that what is formed is shorter.
            list(&(0..count).chain(0..count / 2).map(number).collect::<Vec<_>>())
        });
        let listed = list(&sets);
        for (ty, given) in types.iter().zip([&listed[..], &listed[4..]]) {
            let (whole, _) = bit_by_bit(ty, Purpose::Whole, given);
            let expected = canonical(ty, given).unwrap();
            let stored = whole.stored().unwrap().unwrap();
            assert!(stored == &*expected, "{ty}: {first}, {second} and {third}");
        }
    }
}

#[test]
fn what_it_takes_is_known_before() {
    let int = || Box::new(CqlType::Int);
    let set = || CqlType::Set(int());
    let memory = |ty: CqlType, purpose| LargeWork::new(&ty, purpose, &[0; 1_000]).bytes();
    assert_eq!(memory(CqlType::List(int()), Purpose::Whole), 1_000);
    assert_eq!(memory(set(), Purpose::AsGiven), 1_000);
    assert_eq!(memory(set(), Purpose::Whole), 2_000);
    let (sets, deep) = (|| Box::new(set()), || CqlType::Set(Box::new(set())));
    assert_eq!(memory(CqlType::List(sets()), Purpose::Whole), 2_000);
    assert_eq!(memory(CqlType::Tuple(vec![CqlType::Int, set()]), Purpose::Whole), 2_000);
    assert_eq!(memory(deep(), Purpose::Whole), 4_000);
    assert_eq!(memory(CqlType::List(Box::new(deep())), Purpose::Whole), 4_000);
}

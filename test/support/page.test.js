import { describe, expect, test } from '@jest/globals'
import { isPrinted, printingCommands, stepsOf } from './page.js'

const fence = '```'
const page = `# A page

${fence}sh
echo 1
${fence}

It prints:

${fence}text
1
${fence}

${fence}python
# publish.py
print(2)
${fence}

${fence}toml
[outputs]
${fence}
`

describe('a page', () => {
  test('has commands with what they print, files, and what is only looked at', () => {
    expect(stepsOf(page)).toEqual([
      { kind: 'type', line: 3, language: 'sh', text: 'echo 1\n', expected: '1\n' },
      {
        kind: 'save',
        line: 13,
        language: 'python',
        name: 'publish.py',
        text: '# publish.py\nprint(2)\n',
      },
      { kind: 'look', line: 18, language: 'toml', text: '[outputs]\n' },
    ])
  })

  test('text after text is printed by nobody', () => {
    const two = `${fence}sh\na\n${fence}\n${fence}text\n1\n${fence}\n${fence}text\n2\n${fence}\n`
    expect(stepsOf(two).map(({ kind }) => kind)).toEqual(['type', 'look'])
  })
})

describe('what is printed', () => {
  test.each([
    ['curl a\n', 1],
    ['curl a\ncurl b\n', 2],
    ['sleep 2; curl a\n', 1],
    ['mosquitto_pub -m 1\ncurl a\n', 1],
    ['curl a \\\n  -d "x\ny"\n', 1],
    ['jq . a |\n  curl b\n', 1],
    ["cat > a <<'END'\ncurl a\nEND\ncurl b\n", 1],
    ['for x in 1 2; do\n  curl "$x"\ndone\n', 0],
    ['curl a > b\nnpm start > log 2>&1 &\nx=$(curl c)\n', 0],
  ])('%j: %i commands print something', (text, count) => {
    expect(printingCommands(text)).toHaveLength(count)
  })

  test.each([
    ['{"t":17,"v":9.58}', '{"t":…,"v":9.58}', true],
    ['{"t":17,"v":9x58}', '{"t":…,"v":9.58}', false],
    ['before\nid: 1\ndata: 2\nafter\n', 'id: …\ndata: 2\n', true],
    ['data: 2\nid: 1\n', 'id: …\ndata: 2\n', false],
    ['a (1 rows)\n', '(1 rows)', true],
    ['{"a":1}{"b":2}', '{"a":1}\n{"b":2}', true],
  ])('%j is as %j says: %p', (output, expected, isAsSaid) => {
    expect(isPrinted(output, expected)).toBe(isAsSaid)
  })
})

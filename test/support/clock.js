// Loaded into a process under test before its own code (`--import`): its wall clock, which the test
// moves on. It is CLOCK_AHEAD_MS ahead, and by CLOCK_STEP_MS more with each SIGUSR2.

const stepMs = Number(process.env.CLOCK_STEP_MS ?? 0)
const realNow = Date.now
let aheadMs = Number(process.env.CLOCK_AHEAD_MS ?? 0)

process.on('SIGUSR2', () => {
  aheadMs += stepMs
})

Date.now = () => realNow() + aheadMs

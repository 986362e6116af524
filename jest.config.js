import { fileURLToPath } from 'node:url'

/** @param {string} name  A workspace; its unit tests are in `<name>/test`. */
const unit = (name) => ({
  displayName: name,
  rootDir: `./${name}`,
  testMatch: ['<rootDir>/test/**/*.test.js'],
  testEnvironment: fileURLToPath(new URL('test/support/environment.js', import.meta.url)),
  transform: {},
})

/** @param {string} name  A folder of `test/`, whose tests need the whole platform. */
const system = (name) => ({
  ...unit('test'),
  displayName: name,
  testMatch: [`<rootDir>/${name}/**/*.test.js`],
})

export default {
  // After tests that kill processes, Node 20 may spin for ever in its own clean-up at the end
  // (Environment::CleanupHandles waits for a handle that is gone). A forced exit does without it.
  forceExit: true,
  // Ends a test that hangs. How long one takes is no matter of tests: on a busy machine the start
  // of a process alone may take seconds. Milliseconds.
  testTimeout: 300_000,
  testSequencer: './test/support/longest-first.js',
  projects: [
    ...['common', 'ingest', 'simulator', 'api', 'dashboards'].map(unit),
    ...['tidy', 'docker', 'rules', 'support', 'bench', 'cassandra'].map(system),
    ...['cql', 'e2e'].map(system).map((project) => ({
      ...project,
      globalSetup: '<rootDir>/support/build.js',
    })),
  ],
}

import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import t from 'tap'
import { CAPABILITY_TESTS } from './capability-tests.js'
import { executable } from './executable.js'

const run = promisify(execFile)

t.test(
  'the executable passes the tests of every capability',
  { skip: process.platform !== 'linux' && 'for Linux', timeout: 900_000 },
  async (t) => {
    const binary = await executable()
    const files = Object.values(CAPABILITY_TESTS)
    // As in the full tier: the long parts of these tests are about the product, and not about its form.
    const { SLUICE_TEST_LONG: _, ...short } = process.env
    const env = { ...short, TEST_BINARY: binary, XDG_CACHE_HOME: t.testdir({}) }
    const words = ['test/run.mjs', '--jobs', '2', '--timeout', '600', ...files]
    const { stdout } = await run(process.execPath, words, { env, maxBuffer: 2 ** 26 }).catch((error: unknown) => {
      const { stdout } = error as { stdout: string }
      t.fail(stdout.slice(-8_000))
      return { stdout }
    })
    t.match(stdout, / 0 failed/)
  }
)

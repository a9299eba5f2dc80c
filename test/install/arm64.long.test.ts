import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { rm } from 'node:fs/promises'
import { arch } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { lacks } from '../helpers/small-disk.js'
import { armExecutable, startInto } from './executable.js'

const run = promisify(execFile)
const EMULATOR = 'qemu-aarch64-static'
/** Libraries of the emulated machine that the executable needs. */
const PACKAGES = 'libatomic1,libc6,libgcc-s1,libstdc++6'

/** Why the executable cannot be emulated here; false if it can. */
function notHere(): string | false {
  if (process.platform !== 'linux' || arch() !== 'x64') return 'for Linux on x64'
  if (process.getuid?.() !== 0) return 'only root unpacks packages of Debian'
  return lacks(EMULATOR, ['--version']) || lacks('mmdebstrap', ['--version'])
}

t.test('the executable for arm64 serves with SQLite and pages', { skip: notHere(), timeout: 1_200_000 }, async (t) => {
  const cwd = t.testdir({})
  const root = join(cwd, 'root')
  t.teardown(() => rm(root, { recursive: true, force: true }))
  await run('mmdebstrap', ['--architectures=arm64', '--variant=extract', `--include=${PACKAGES}`, 'bookworm', root])
  const binary = await armExecutable(cwd)
  const env = {
    PATH: process.env.PATH ?? '',
    XDG_CACHE_HOME: join(cwd, 'cache'),
    SLUICE_DATA: join(cwd, 'data'),
    SLUICE_LISTEN: '127.0.0.1:0',
    SLUICE_API_LISTEN: '127.0.0.1:0'
  }
  const words = [EMULATOR, '-L', root, binary]
  const { stdout } = await run(EMULATOR, [...words.slice(1), '--version'], { env })
  t.match(stdout, /^\d+\.\d+\.\d+ \(.*Node 26\./)
  const { child, traffic, api } = await startInto(t, [...words, 'start', '--demo'], { cwd, env, log: join(cwd, 'log') })
  t.equal((await fetch(traffic)).status, 200)
  t.equal((await fetch(`${api}/dashboard/lib/preact.module.js`)).status, 200)
  const ended = once(child, 'exit')
  child.kill('SIGTERM')
  t.same(await ended, [0, null])
})

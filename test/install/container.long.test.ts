import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { access, mkdir, readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { promisify } from 'node:util'
import t from 'tap'
import { lacks } from '../helpers/small-disk.js'
import { freePort } from '../proxy/free-port.js'
import { only, stages } from './containerfile.js'
import { executable } from './executable.js'

const run = promisify(execFile)
const ROOT = process.getuid?.() === 0

t.test(
  'the image runs as its user, on a read-only root, until the signal',
  {
    skip:
      (!ROOT && 'only root makes an image') ||
      lacks('unshare', ['--mount', 'true']) ||
      lacks('apt-get', ['indextargets']) ||
      lacks('dpkg-deb', ['--version']),
    timeout: 600_000
  },
  async (t) => {
    const root = join(t.testdir({}), 'root')
    t.teardown(() => rm(root, { recursive: true, force: true }))
    await run(process.execPath, ['config/image.mjs', '--binary', await executable(), '--out', root])
    await t.rejects(access(join(root, 'bin', 'sh')), 'it has no shell')
    const [, image = []] = await stages()
    const user = only(image, 'USER').split(':')[0] as string
    const variables = only(image, 'ENV').match(/\w+=\S+/g) ?? []
    const api = `127.0.0.1:${await freePort()}`
    // All but the volume is read-only, as with --read-only.
    const script = `mount --bind "$0" "$0" && mount --bind "$0/data" "$0/data" && mount -o remount,ro,bind "$0" &&
      mount -t proc proc "$0/proc" && mount --rbind /dev "$0/dev" &&
      exec setpriv --reuid=${user} --regid=${user} --clear-groups --bounding-set=-all,+sys_chroot --inh-caps=-all,+sys_chroot --ambient-caps=-all,+sys_chroot -- chroot "$0" "$@"`
    const inside = (words: readonly string[]): [string, string[]] => [
      'unshare',
      ['--mount', 'sh', '-c', script, root, ...words]
    ]
    const env = {
      PATH: process.env.PATH ?? '',
      ...Object.fromEntries(variables.map((pair) => pair.split('=', 2) as [string, string])),
      SLUICE_LISTEN: '127.0.0.1:0',
      SLUICE_API_LISTEN: api
    }
    const [, health = ''] = /CMD (\[.*\])$/.exec(only(image, 'HEALTHCHECK')) ?? []
    const own = { env: { ...env, PATH: `${env.PATH}:${process.env.PATH}` } }
    const check = async () => await run(...inside(JSON.parse(health) as string[]), own)
    await t.rejects(check(), { code: 1 }, 'nothing runs yet')
    const words = [only(image, 'ENTRYPOINT'), only(image, 'CMD')].flatMap((each) => JSON.parse(each) as string[])
    const child = spawn(...inside(words), { ...own, stdio: ['ignore', 'pipe', 'pipe'] })
    t.teardown(() => child.kill('SIGKILL'))
    let said = ''
    child.stderr?.on('data', (piece) => {
      said += piece
    })
    const ended = once(child, 'close')
    let line = ''
    for await (line of createInterface({ input: child.stdout as NonNullable<typeof child.stdout> }))
      if (line.includes('"msg":"listening"')) break
    t.match(line, /"msg":"listening"/, said)
    child.stdout?.resume()
    const { stdout } = await check()
    t.match(stdout, /^ready/)
    const status = await readFile(`/proc/${child.pid}/status`, 'utf8')
    t.match(status, new RegExp(`^Uid:\\s+${user}\\s+${user}`, 'm'))
    await t.rejects(mkdir(`/proc/${child.pid}/root/written`), { code: 'EROFS' })
    child.kill(only(image, 'STOPSIGNAL') as NodeJS.Signals)
    t.same(await ended, [0, null])
  }
)

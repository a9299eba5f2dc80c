import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { copyFile, mkdir, readFile, rm, writeFile } from 'node:fs/promises'
import { Agent } from 'node:http'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { Looping } from '../capabilities/take-over/take-over-stand.js'
import { lacks } from '../helpers/small-disk.js'
import { until } from '../helpers/until.js'
import { freePort } from '../proxy/free-port.js'
import { executable } from './executable.js'
import { stepsBelow } from './pages.js'

const run = promisify(execFile)
const ROOT = process.getuid?.() === 0
const SUITE = 'bookworm'
/** Packages of a machine without systemd on which the package of Sluice can be installed. */
const PACKAGES = 'adduser,apt,init-system-helpers,libatomic1,libgcc-s1,libstdc++6'

/** Makes a Debian system in a folder; TEST_ROOTFS names an archive of one. */
async function debianRoot(t: Test): Promise<string> {
  const folder = t.testdir({})
  const root = join(folder, 'root')
  await mkdir(root)
  const { TEST_ROOTFS } = process.env
  if (TEST_ROOTFS !== undefined) await run('tar', ['-xf', TEST_ROOTFS, '-C', root, '--exclude=./dev/*'])
  else await run('mmdebstrap', ['--variant=essential', `--include=${PACKAGES}`, SUITE, root])
  // It removes what only root can.
  t.teardown(() => rm(root, { recursive: true, force: true }))
  return root
}

/** Returns the words that become a command inside `root`, as its user root: signals reach the command itself. */
function inside(root: string, ...words: string[]): [string, string[]] {
  const script =
    'mount -t proc proc "$0/proc" && mount --rbind /dev "$0/dev" && exec chroot "$0" env -i PATH=/usr/sbin:/usr/bin "$@"'
  return ['unshare', ['--mount', 'sh', '-c', script, root, ...words]]
}

/** Reads the value of a field of the unit that the package has installed. */
async function unitValues(root: string, name: string): Promise<string[]> {
  const unit = await readFile(join(root, 'usr/lib/systemd/system/sluice.service'), 'utf8')
  return [...unit.matchAll(new RegExp(`^${name}=(.*)$`, 'gm'))].map(([, value = '']) => value)
}

/** Starts the command of the unit, as its user, with its environment and folders, and its log in a file. */
async function startUnit(t: Test, root: string, port: number, log: string, ...more: string[]) {
  const [command = ''] = await unitValues(root, 'ExecStart')
  const [user = ''] = await unitValues(root, 'User')
  const pairs = (await unitValues(root, 'Environment')).flatMap((line) => line.split(' '))
  const env = [...pairs, `CACHE_DIRECTORY=/var/cache/sluice`, `SLUICE_LISTEN=127.0.0.1:${port}`]
  const script = `install -d -o ${user} -g ${user} -m 0700 /var/cache/sluice && cd /var/lib/sluice &&
    exec setpriv --reuid=${user} --regid=${user} --clear-groups -- env "$@" >>/var/log/${log}`
  const words = ['sh', '-c', script, 'sh', ...env, 'SLUICE_API_LISTEN=127.0.0.1:0', ...command.split(' '), ...more]
  // The log belongs to the user: a successor opens it.
  await run(...inside(root, 'install', '-o', user, '/dev/null', `/var/log/${log}`))
  const child = spawn(...inside(root, ...words), { stdio: ['ignore', 'ignore', 'pipe'] })
  let said = ''
  child.stderr?.on('data', (piece) => {
    said += piece
  })
  t.teardown(() => child.kill('SIGKILL'))
  const serves = async () => (await readFile(join(root, 'var/log', log), 'utf8')).includes('"msg":"listening"')
  await until(async () => (await serves()) || child.exitCode !== null)
  t.ok(await serves(), said)
  return child
}

t.test(
  'the Debian package is installed, upgraded without a refused request, removed and purged',
  {
    skip:
      (!ROOT && 'only root installs packages') ||
      lacks('dpkg-deb', ['--version']) ||
      (process.env.TEST_ROOTFS === undefined && lacks('mmdebstrap', ['--version'])) ||
      lacks('unshare', ['--mount', 'true']),
    timeout: 1_800_000
  },
  async (t) => {
    const root = await debianRoot(t)
    const packages = join(root, 'packages')
    await mkdir(packages)
    const { TEST_DEB } = process.env
    const first = join(packages, 'first.deb')
    if (TEST_DEB === undefined) {
      const words = ['config/debian.mjs', '--binary', await executable(), '--out', packages]
      const { stdout } = await run(process.execPath, words)
      await copyFile(stdout.trim(), first)
    } else await copyFile(TEST_DEB, first)
    await t.test('lintian', { skip: lacks('lintian', ['--version']) }, async (t) => {
      const { stdout } = await run('lintian', ['--allow-root', '--fail-on=error,warning', first])
      t.equal(stdout, '')
    })

    const laid = join(packages, 'laid')
    await run('dpkg-deb', ['--raw-extract', first, laid])
    const control = join(laid, 'DEBIAN', 'control')
    await writeFile(control, (await readFile(control, 'utf8')).replace(/^Version: .*$/m, 'Version: 999'))
    await run('dpkg-deb', ['--root-owner-group', '-Znone', '--build', laid, join(packages, 'next.deb')])
    await rm(laid, { recursive: true })

    const [, install = '', request = ''] = (await stepsBelow('Debian package')).trim().split('\n')
    const [, named = ''] = /dist-binary\/(\S+)/.exec(install) ?? []
    await mkdir(join(packages, 'dist-binary'))
    await copyFile(first, join(packages, 'dist-binary', named))
    const line = install.replace(/^sudo apt /, 'apt-get --yes ')
    await run(...inside(root, 'sh', '-c', `cd /packages && ${line}`))
    t.match((await run(...inside(root, 'sluice', '--version'))).stdout, /Node 26/)
    t.match((await run(...inside(root, 'stat', '-c', '%U %a', '/var/lib/sluice'))).stdout, 'sluice 700')
    for (const file of [
      'usr/share/man/man1/sluice.1.gz',
      'usr/share/bash-completion/completions/sluice',
      'usr/share/doc/sluice/sbom.cdx.json'
    ])
      t.ok(existsSync(join(root, file)), file)

    const port = await freePort()
    const running = await startUnit(t, root, port, 'first.log')
    t.match(
      (await run('sh', ['-c', request.replace(':8080', `:${port}`)])).stdout,
      /^HTTP\/1\.1 200 [\s\S]*Sluice works/
    )
    const loops = [1, 2, 3].map(() => new Looping(port, new Agent({ keepAlive: false })))
    const served = async (more: number) => {
      const before = loops.map(({ well }) => well)
      await until(() => loops.every(({ well, wrong }, index) => wrong.length > 0 || well > (before[index] ?? 0) + more))
    }
    await served(20)
    await run(...inside(root, 'dpkg', '--install', '/packages/next.deb'))
    const gone = once(running, 'exit')
    const next = await startUnit(t, root, port, 'next.log', '--take-over')
    t.same((await gone)[0], 0, 'the first process has drained')
    await served(20)
    await Promise.all(loops.map((loop) => loop.end()))
    t.same(
      loops.flatMap(({ wrong }) => wrong),
      [],
      'no request was refused'
    )
    const ended = once(next, 'exit')
    next.kill('SIGTERM')
    t.same((await ended)[0], 0, 'the signal reaches the successor')

    await run(...inside(root, 'dpkg', '--remove', 'sluice'))
    t.notOk(existsSync(join(root, 'usr/bin/sluice')))
    for (const kept of ['etc/sluice/sites.yaml', 'var/lib/sluice/sluice.db']) t.ok(existsSync(join(root, kept)), kept)
    const unit = join(root, 'etc/systemd/system/sluice.service')
    t.ok(existsSync(unit), 'a removed service is masked')
    await run(...inside(root, 'dpkg', '--install', '/packages/first.deb'))
    t.notOk(existsSync(unit), 'and is there again with the package')
    await run(...inside(root, 'dpkg', '--purge', 'sluice'))
    for (const left of ['etc/sluice', 'var/lib/sluice', 'var/cache/sluice', 'usr/lib/systemd/system/sluice.service'])
      t.notOk(existsSync(join(root, left)), left)
    t.notMatch(await readFile(join(root, 'etc/passwd'), 'utf8'), /^sluice:/m)
  }
)

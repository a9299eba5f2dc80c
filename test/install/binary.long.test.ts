import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { chmod, mkdir, readdir, readFile, stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { lacks } from '../helpers/small-disk.js'
import { freePort } from '../proxy/free-port.js'
import { executable, startInto } from './executable.js'

const run = promisify(execFile)
const LINUX = process.platform === 'linux'

t.test('one executable file', { skip: !LINUX && 'for Linux', timeout: 600_000 }, async (t) => {
  const cwd = t.testdir({ cache: {} })
  const binary = await executable()
  const env = { PATH: '', XDG_CACHE_HOME: join(cwd, 'cache') }
  const version = await Promise.all([1, 2, 3].map(() => run(binary, ['--version'], { cwd, env })))
  for (const { stdout } of version) t.match(stdout, /^\d+\.\d+\.\d+ \((commit [0-9a-f]{12}, )?Node 26\.\d+\.\d+\)\n$/)
  const place = join(cwd, 'cache', 'sluice')
  t.equal((await readdir(place)).length, 1, 'starts at once unpack one folder, and leave nothing else')
  t.equal((await stat(place)).mode & 0o077, 0)

  await t.test('serves with threads, SQLite, pages and countries, and is taken over', async (t) => {
    const more = {
      ...env,
      SLUICE_WORKERS: '2',
      SLUICE_LISTEN: `127.0.0.1:${await freePort()}`,
      SLUICE_API_LISTEN: '127.0.0.1:0',
      SLUICE_DATA: join(cwd, 'data')
    }
    const words = [binary, 'start', '--demo']
    const first = await startInto(t, words, { cwd, env: more, log: join(cwd, 'first.log') })
    t.equal((await fetch(first.traffic)).status, 200)
    for (const path of ['/', '/dashboard/lib/preact.module.js', '/docs/swagger-ui-bundle.js'])
      t.equal((await fetch(`${first.api}${path}`)).status, 200, path)
    const gone = once(first.child, 'exit')
    const next = await startInto(t, [...words, '--take-over'], { cwd, env: more, log: join(cwd, 'next.log') })
    const pid = Number(/process (\d+) reads its options/.exec(next.said())?.[1])
    t.teardown(() => next.child.exitCode === null && process.kill(pid, 'SIGKILL'))
    t.same(await gone, [0, null], 'the first process has drained')
    t.not(next.api, first.api, 'the successor has opened its own listener of the API')
    t.ok([200, 429].includes((await fetch(next.traffic)).status))
    const ended = once(next.child, 'exit')
    next.child.kill('SIGTERM')
    t.same(await ended, [0, null], 'the signal reaches the successor, whose exit code the command has')
  })

  await t.test('a folder that the system does not make is passed over', { timeout: 60_000 }, async (t) => {
    const nowhere = { PATH: '', HOME: '/proc/nowhere', TMPDIR: '/proc/nowhere' }
    const told = await run(binary, ['--version'], { cwd, env: nowhere, timeout: 30_000 }).catch((e: unknown) => e)
    t.match(told, { code: 1, stderr: /no folder for its files .*let CACHE_DIRECTORY name one that can be written/ })
  })

  await t.test(
    'a file system that runs no programs is passed over',
    { skip: lacks('unshare', ['--mount', 'true']) },
    async (t) => {
      const folder = join(cwd, 'noexec')
      await mkdir(folder)
      const script = 'mount -t tmpfs -o noexec none "$0" && exec "$@"'
      const start = (temporary: string) => {
        const own = { PATH: process.env.PATH, CACHE_DIRECTORY: folder, TMPDIR: temporary }
        return run('unshare', ['--mount', 'sh', '-c', script, folder, binary, '--version'], { cwd, env: own })
      }
      t.match(await start(cwd), { stdout: /Node 26/ })
      t.match(await start('/proc/nowhere').catch((error: unknown) => error), {
        code: 1,
        stderr: /runs no programs \(noexec/
      })
    }
  )

  await t.test('code is unpacked only where no other user can write', async (t) => {
    const open = join(cwd, 'open')
    await mkdir(join(open, 'sluice'), { recursive: true })
    await chmod(join(open, 'sluice'), 0o777)
    const nowhere = { PATH: '', CACHE_DIRECTORY: open, TMPDIR: join(binary, 'no-folder') }
    const told = await run(binary, ['--version'], { cwd, env: nowhere }).catch((error: unknown) => error)
    t.match(told, { code: 1, stderr: /belongs to another user, or others may write there.*CACHE_DIRECTORY/ })
    t.same(await readdir(join(open, 'sluice')), [])
  })

  const bill = JSON.parse(await readFile(`${binary}.sbom.cdx.json`, 'utf8')) as { components: { name: string }[] }
  const names = bill.components.map(({ name }) => name)
  for (const name of ['node', 'fastify', 'http-proxy', 'libsql', 'preact']) t.ok(names.includes(name), name)
  t.notOk(names.includes('typescript'))
  const { sha256 } = JSON.parse(await readFile(join(dirname(binary), 'release.json'), 'utf8')) as { sha256: object }
  t.same(sha256, { sluice: (await readFile(`${binary}.sha256`, 'utf8')).split(' ')[0] })
})

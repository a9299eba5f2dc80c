import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmod, mkdir, readdir, readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { freePort } from '../proxy/free-port.js'

const run = promisify(execFile)
const LINUX = process.platform === 'linux'

/** Builds the executable of this machine into a folder, or takes the one that TEST_BINARY names. */
async function built(folder: string): Promise<string> {
  const { TEST_BINARY } = process.env
  if (TEST_BINARY !== undefined) return TEST_BINARY
  await run(process.execPath, ['config/build.mjs', 'dist'])
  const out = join(folder, 'sluice')
  await run(process.execPath, ['config/binary.mjs', '--out', out])
  return out
}

/** A started executable: its child process and what its line `listening` has. */
async function started(t: Test, binary: string, cwd: string, env: Record<string, string>, ...words: string[]) {
  const child = spawn(binary, ['start', '--demo', ...words], { cwd, env, stdio: ['ignore', 'pipe', 'inherit'] })
  t.teardown(() => child.kill('SIGKILL'))
  for await (const line of createInterface({ input: child.stdout }))
    if (line.includes('"msg":"listening"')) return { child, ...(JSON.parse(line) as { traffic: string; api: string }) }
  throw new Error(`it ended with ${child.exitCode}`)
}

t.test('one executable file', { skip: !LINUX && 'for Linux', timeout: 600_000 }, async (t) => {
  const cwd = t.testdir({ cache: {} })
  const binary = await built(cwd)
  const env = { PATH: '', XDG_CACHE_HOME: join(cwd, 'cache') }
  const version = await Promise.all([1, 2, 3].map(() => run(binary, ['--version'], { cwd, env })))
  for (const { stdout } of version) t.match(stdout, /^\d+\.\d+\.\d+ \((commit [0-9a-f]{12}, )?Node 26\.\d+\.\d+\)\n$/)
  const place = join(cwd, 'cache', 'sluice')
  t.equal((await readdir(place)).length, 1, 'starts at once unpack one folder, and leave nothing else')
  t.equal((await stat(place)).mode & 0o077, 0)

  await t.test('serves with threads, SQLite, pages and countries, and is taken over', async (t) => {
    const listen = `127.0.0.1:${await freePort()}`
    const more = { ...env, SLUICE_WORKERS: '2', SLUICE_LISTEN: listen, SLUICE_DATA: join(cwd, 'data') }
    const first = await started(t, binary, cwd, { ...more, SLUICE_API_LISTEN: '127.0.0.1:0' })
    t.equal((await fetch(first.traffic)).status, 200)
    for (const path of ['/', '/dashboard/lib/preact.module.js', '/docs/swagger-ui-bundle.js'])
      t.equal((await fetch(`${first.api}${path}`)).status, 200, path)
    const next = await started(t, binary, cwd, { ...more, SLUICE_API_LISTEN: '127.0.0.1:0' }, '--take-over')
    if (first.child.exitCode === null) await once(first.child, 'exit')
    t.ok([200, 429].includes((await fetch(next.traffic)).status))
    next.child.kill('SIGTERM')
    t.same(await once(next.child, 'exit'), [0, null])
  })

  await t.test('code is unpacked only where no other user can write', async (t) => {
    const open = join(cwd, 'open')
    await mkdir(join(open, 'sluice'), { recursive: true })
    await chmod(join(open, 'sluice'), 0o777)
    const nowhere = { PATH: '', CACHE_DIRECTORY: open, TMPDIR: join(cwd, 'missing', 'folder') }
    const told = await run(binary, ['--version'], { cwd, env: nowhere }).catch((error: unknown) => error)
    t.match(told, { code: 1, stderr: /belongs to another user, or others may write there.*CACHE_DIRECTORY/ })
    t.same(await readdir(join(open, 'sluice')), [])
  })

  if (process.env.TEST_BINARY === undefined) {
    const bill = JSON.parse(await readFile(`${binary}.sbom.cdx.json`, 'utf8')) as { components: { name: string }[] }
    const names = bill.components.map(({ name }) => name)
    for (const name of ['node', 'fastify', 'http-proxy', 'libsql', 'preact']) t.ok(names.includes(name), name)
    t.notOk(names.includes('typescript'))
    const { sha256 } = JSON.parse(await readFile(join(cwd, 'release.json'), 'utf8')) as { sha256: object }
    t.same(sha256, { sluice: (await readFile(`${binary}.sha256`, 'utf8')).split(' ')[0] })
  }
})

import { once } from 'node:events'
import { chmod, mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import type { AddressInfo } from 'node:net'
import { createServer } from 'node:net'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import type { Finding } from '../../src/cli/doctor-finding.js'
import { checkClock, checkLimits, checkMemory, checkNode } from '../../src/cli/doctor-machine.js'
import { makeServerCertificate } from '../../src/lib/self-signed.js'
import { loadOptions } from '../../src/options/load.js'
import { SCHEMA_VERSION } from '../../src/store/migrations.js'
import { openDatabase } from '../../src/store/sqlite-driver.js'
import { manySecrets, sealerIn, withStore } from '../capabilities/transfer/transfer-stand.js'
import { noSmallDisk, SmallDisk } from '../helpers/small-disk.js'
import { startOwnPostgres } from '../store/postgres-server.js'
import { runCommand } from './command.js'
import { SluiceProcess } from './process.js'

const FREE = ['--listen', '127.0.0.1:0', '--api', '127.0.0.1:0']

async function examined(t: Test, cwd: string, words: readonly string[] = FREE, env: Record<string, string> = {}) {
  const { code, out, err } = await runCommand(t, ['doctor', '--json', ...words], { cwd, env })
  t.equal(err, '')
  const { ok, findings } = JSON.parse(out) as { ok: boolean; findings: Finding[] }
  t.equal(code, ok ? 0 : 1)
  for (const { status, help, message } of findings) t.equal(status === 'ok', help === undefined, message)
  const of = (check: string) => findings.filter((one) => one.check === check)
  return { ok, findings, of, bad: findings.filter(({ status }) => status === 'error') }
}

t.test('nothing is wrong with a fresh folder, nor beside a process', async (t) => {
  const cwd = t.testdir()
  t.equal((await examined(t, cwd)).ok, true)
  const running = new SluiceProcess(t, ['start', ...FREE, '--data', 'data'], { cwd })
  const { traffic, api } = (await running.logged('listening')) as { traffic: string; api: string }
  const at = ['--listen', new URL(traffic).host, '--api', new URL(api).host]
  const beside = await examined(t, cwd, at)
  t.same(beside.bad, [])
  t.match(beside.of('store'), [{ message: /is sound at revision 1, in use by process \d+/ }])
  t.match(
    beside.of('ports').map(({ message }) => message),
    [/is in use, and a Sluice runs here/, /is in use/]
  )
  const human = await runCommand(t, ['doctor', ...at], { cwd })
  t.match(human, { code: 0, out: /\d+ checks: 0 failed, \d+ with warnings$/ })
})

t.test('a damaged file of counters is found, before a start moves it', async (t) => {
  const cwd = t.testdir()
  const file = join(cwd, 'data', 'limits', 'counters')
  const running = new SluiceProcess(t, ['start', ...FREE, '--data', 'data'], { cwd })
  await running.logged('listening')
  running.child.kill('SIGTERM')
  await running.ended()
  t.same((await examined(t, cwd)).of('counters'), [])
  await writeFile(file, (await readFile(file)).fill(1, 70, 71))
  const found = await examined(t, cwd)
  t.match(found.of('counters'), [
    { status: 'warning', message: /limits.counters: its mark is damaged$/, help: /starts with empty counters/ }
  ])
  t.ok(found.ok, 'a start works')
})

t.test('a damaged store, a lost key, other keys and open files are found', async (t) => {
  const cwd = t.testdir()
  const data = join(cwd, 'data')
  const seal = await sealerIn(data)
  await withStore(t, join(data, 'sluice.db'), (store) => manySecrets(store, seal, 3))
  t.same((await examined(t, cwd)).bad, [])

  await chmod(join(data, 'seal.key'), 0o644)
  t.match((await examined(t, cwd)).bad, [{ check: 'keys', help: /^chmod 600 / }])
  await chmod(join(data, 'seal.key'), 0o600)
  await writeFile(join(data, 'api-keys.json'), 'text')
  t.match((await examined(t, cwd)).bad, [{ check: 'keys', help: /move it away to start with a new key/ }])
  await writeFile(join(data, 'api-keys.json'), '{"keys": []}', { mode: 0o600 })

  const other = await readFile(join(data, 'seal.key'), 'utf8')
  await writeFile(join(data, 'seal.key'), `${Buffer.alloc(32, 7).toString('base64')}\n`)
  const wrong = await examined(t, cwd)
  t.match(wrong.bad, [{ check: 'keys', help: /restore the key .*seal\.key/ }])
  await writeFile(join(data, 'seal.key'), other)

  const file = join(data, 'sluice.db')
  const whole = await readFile(file)
  await writeFile(file, Buffer.from(whole).fill(0x41, 4096))
  t.match((await examined(t, cwd)).bad, [{ check: 'store', help: /sluice restore --overwrite/ }])
  await writeFile(file, whole)

  const database = openDatabase(file)
  database.exec(`update revisions set at = ${Date.now() + 3_600_000}`)
  database.exec('update meta set schema_version = 10000')
  database.close()
  t.match((await examined(t, cwd)).bad, [{ check: 'store', message: /schema version 10000/ }])
  const again = openDatabase(file)
  again.exec(`update meta set schema_version = ${SCHEMA_VERSION}`)
  again.close()
  t.match((await examined(t, cwd)).bad, [{ check: 'clock', message: /it went back/, help: /timedatectl/ }])
})

t.test('a store that has gone, a folder for all, and a file as folder are found', async (t) => {
  const cwd = t.testdir({ file: '', data: { 'configuration.copy': 'copy' } })
  t.match((await examined(t, cwd)).bad, [{ check: 'store', help: /sluice restore FILE/ }])
  await mkdir(join(cwd, 'open'), { mode: 0o755 })
  const open = await examined(t, cwd, [...FREE, '--data', 'open'])
  t.match(open.of('data'), [{ status: 'warning', help: /^chmod 700 / }])
  t.match((await examined(t, cwd, [...FREE, '--data', 'file'])).of('data'), [
    { status: 'error', message: /is no folder/ }
  ])
})

t.test('a disk that is full or read-only is found', { skip: noSmallDisk() }, async (t) => {
  const cwd = t.testdir()
  const disk = SmallDisk.mount(t, join(cwd, 'disk'))
  const place = [...FREE, '--data', 'disk']
  t.match((await examined(t, cwd, place)).of('data'), [{ status: 'error', message: /are free on the disk/ }])
  disk.fill()
  t.match((await examined(t, cwd, place)).of('data'), [{ status: 'error', message: /the disk is full/ }])
  t.same(
    (await readdir(join(cwd, 'disk'))).filter((name) => name.startsWith('.probe')),
    [],
    'nothing of it stays'
  )
  disk.empty()
  disk.readOnly()
  t.match((await examined(t, cwd, place)).of('data'), [{ status: 'error', message: /is read-only/, help: /mount it/ }])
  disk.writable()
})

t.test('a busy port, a foreign address and an upstream that is not there are found', async (t) => {
  const busy = createServer((socket) => socket.destroy()).listen(0, '127.0.0.1')
  await once(busy, 'listening')
  t.teardown(() => busy.close())
  const { port } = busy.address() as AddressInfo
  const words = ['--listen', `127.0.0.1:${port}`, '--api', '192.0.2.1:4040', '--upstream', 'http://127.0.0.1:1']
  const found = await examined(t, t.testdir(), words)
  t.match(found.of('ports'), [
    { status: 'error', message: /listen: .* is in use by another process/, help: /ss -ltnp/ },
    { status: 'error', message: /api\.listen: .* is no address of this machine/ }
  ])
  t.match(found.of('upstream'), [{ status: 'warning', message: /nothing listens there/ }])
})

t.test('certificates that end, and a site file with errors, are found', async (t) => {
  const now = Date.now()
  const made = async (days: number) => {
    const life = days * 86_400_000
    return await makeServerCertificate('x.test', ['x.test'], {
      now: days < 0 ? now + 2 * life : now,
      life: Math.abs(life)
    })
  }
  const [soon, gone] = [await made(5), await made(-3)]
  const site = (name: string) => `certificates:\n  - { certificate: ${name}.pem, key: ${name}.key }\n`
  const cwd = t.testdir({
    'soon.pem': soon.cert,
    'soon.key': soon.key,
    'gone.pem': gone.cert,
    'gone.key': gone.key,
    'soon.yaml': site('soon'),
    'broken.yaml': 'sites:\n  x.test: { polcy: none }\n'
  })
  const words = ['--data', ':memory:', ...FREE]
  const broken = await examined(t, cwd, ['broken.yaml', ...words])
  t.match(broken.of('site file'), [{ status: 'error', message: /broken\.yaml:2:\d+: /, help: /sluice check / }])
  const near = await examined(t, cwd, ['soon.yaml', ...words])
  t.match(
    near.of('certificates'),
    [{ status: 'warning', message: /soon\.pem ends on .* in 4 days/ }],
    JSON.stringify(near)
  )
  const config = 'agents: 127.0.0.1:0\nagents_certificate: gone.pem\nagents_key: gone.key\n'
  await writeFile(join(cwd, 'agents.yaml'), config)
  const over = await examined(t, cwd, ['--config', 'agents.yaml', ...words])
  t.match(over.of('certificates'), [{ status: 'error', message: /gone\.pem ended on/ }])
})

t.test('a database server is asked for its state and its clock', async (t) => {
  const server = await startOwnPostgres(t)
  const url = await server.database()
  const cwd = t.testdir()
  const words = [...FREE, '--store', url]
  t.match((await examined(t, cwd, words)).of('store'), [{ status: 'ok', message: /PostgreSQL is empty/ }])
  await withStore(t, url, async () => undefined)
  const there = await examined(t, cwd, words)
  t.match(there.of('store'), [{ status: 'ok', message: /PostgreSQL is sound at revision/ }])
  await server.stop()
  const gone = await examined(t, cwd, words)
  t.match(gone.of('store'), [{ status: 'error', message: /cannot reach postgres/ }])
  t.notMatch(JSON.stringify(gone.findings), /hidden-in-logs/)
})

t.test('limits of the kernel, memory, clock and Node are judged', async (t) => {
  const loaded = await loadOptions({ flags: [], environment: {}, folder: t.testdir() })
  if (!loaded.ok) throw new Error('the defaults are valid')
  const { options } = loaded
  const limits = (files: number, size: string) =>
    `Limit                     Soft Limit           Hard Limit           Units     \nMax file size             unlimited            ${size}            bytes\nMax open files            1024                 ${files}              files\n`
  t.match(checkLimits(limits(100, 'unlimited'), options), [{ status: 'error', help: /LimitNOFILE=\d+/ }])
  t.match(checkLimits(limits(4096, 'unlimited'), options), [{ status: 'warning', message: /1948 clients at a time/ }])
  t.match(checkLimits(limits(10_000_000, '4096'), options), [{ status: 'ok' }, { status: 'error', help: /LimitFSIZE/ }])
  t.match(checkLimits(limits(10_000_000, 'unlimited'), options), [{ status: 'ok' }])
  t.match(checkMemory(options.limiter.budget, options), [{ status: 'warning', help: /lower limiter\.budget/ }])
  t.same(checkMemory(undefined, options), [])
  const now = Date.parse('2030-01-01T00:00:00Z')
  const times = { now, built: now - 1, committedAt: now - 1, serverTime: now + 100 }
  t.match(checkClock(times), [{ status: 'ok' }])
  t.match(checkClock({ ...times, built: now + 86_400_000 }), [{ status: 'error' }])
  t.match(checkClock({ ...times, serverTime: now - 10_000 }), [{ status: 'warning', message: /10 s apart/ }])
  t.match(checkClock({ ...times, serverTime: now - 100_000 }), [{ status: 'error' }])
  t.equal(checkNode('24.1.0').status, 'ok')
  t.equal(checkNode('20.19.0').status, 'warning')
  t.equal(checkNode('23.0.0').status, 'warning')
})

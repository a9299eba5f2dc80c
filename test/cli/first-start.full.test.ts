import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { chmod, mkdir, readdir, readFile, stat, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { explainStart } from '../../src/cli/report.js'
import { openSealer } from '../../src/control/seal-key.js'
import { portPermission } from '../../src/lib/system-errors.js'
import { freePort } from '../proxy/free-port.js'
import { runCommand } from './command.js'
import { LISTEN } from './keyed-process.js'
import { SluiceProcess } from './process.js'

const KEY = 'a-key-of-the-administrator'

t.test('a first start that fails leaves a data folder that the next start can use', async (t) => {
  const cwd = t.testdir({ 'sites.yaml': 'sites:\n  x.test: { polcy: none }\n' })
  const failed = await runCommand(t, ['start', 'sites.yaml', ...LISTEN], { cwd })
  t.match(failed, { code: 1, err: /polcy/ })
  await writeFile(join(cwd, 'sites.yaml'), 'sites: { x.test: "http://127.0.0.1:1" }\n')
  const next = new SluiceProcess(t, ['start', 'sites.yaml', ...LISTEN], { cwd })
  await next.logged('listening')
  next.child.kill('SIGTERM')
  t.equal((await next.ended()).code, 0)
})

t.test('a sealing key without a store, as an older version left it, does not stop a start', async (t) => {
  const cwd = t.testdir({ data: { 'seal.key': `${'ab'.repeat(32)}\n` } })
  await chmod(join(cwd, 'data', 'seal.key'), 0o600)
  const sluice = new SluiceProcess(t, ['start', ...LISTEN], { cwd })
  await sluice.logged('listening')
  t.equal((await readFile(join(cwd, 'data', 'seal.key'), 'utf8')).trim(), 'ab'.repeat(32), 'the key is used')
})

t.test('the key is written with the store, and not by a start that fails before', async (t) => {
  const cwd = t.testdir({ 'o.yaml': 'access_log_file: none/access.log\n' })
  const failed = await runCommand(t, ['start', '--config', 'o.yaml', ...LISTEN], { cwd })
  t.equal(failed.code, 1, failed.err)
  t.notOk(existsSync(join(cwd, 'data', 'seal.key')), failed.err)
  const folder = join(cwd, 'other')
  let write: (() => Promise<void>) | undefined
  const whenStored = (later: () => Promise<void>) => {
    write = later
  }
  const sealer = await openSealer({ given: undefined, folder, lasting: true, whenStored })
  t.notOk(existsSync(folder))
  await write?.()
  t.equal((await openSealer({ given: undefined, folder, lasting: true })).keyId, sealer.keyId)
})

t.test('a data folder that cannot be written ends the start with the line of the doctor', async (t) => {
  const cwd = t.testdir({ file: '' })
  const words = ['--data', join('file', 'data'), ...LISTEN]
  const ended = await runCommand(t, ['start', ...words], { cwd })
  t.equal(ended.code, 1)
  const lines = ended.err.split('\n')
  t.equal(lines.length, 1, ended.err)
  const { out } = await runCommand(t, ['doctor', '--json', ...words], { cwd })
  const { findings } = JSON.parse(out) as {
    findings: { check: string; status: string; message: string; help: string }[]
  }
  const found = findings.find(({ check, status }) => check === 'data' && status === 'error')
  t.equal(lines[0], `data: ${found?.message}; ${found?.help}`)
})

t.test('a start that writes to a pipe names the file of its key, which commands on this machine use', async (t) => {
  const cwd = t.testdir()
  const sluice = new SluiceProcess(t, ['start', ...LISTEN], { cwd })
  const { api } = (await sluice.logged('listening')) as { api: string }
  const said = await sluice.told('the API key is in ')
  const file = / is in (\S+);/.exec(said)?.[1] ?? ''
  const key = (await readFile(file, 'utf8')).trim()
  t.match(key, /^sluice_/)
  t.notMatch(said, key)
  t.equal((await stat(file)).mode & 0o777, 0o600)
  const asked = await runCommand(t, ['log', '--api', api], { cwd })
  t.equal(asked.code, 0, asked.err)
  await mkdir(join(cwd, 'elsewhere'))
  const elsewhere = { cwd: join(cwd, 'elsewhere') }
  t.match(await runCommand(t, ['log', '--api', api], elsewhere), {
    code: 2,
    err: /SLUICE_DATA.*there is no data\/api\.key/
  })
  const env = { SLUICE_DATA: join(cwd, 'data') }
  t.equal((await runCommand(t, ['log', '--api', api], { ...elsewhere, env })).code, 0)
  const foreign = ['log', '--api', 'https://sluice.example.com:4040']
  t.match(
    await runCommand(t, foreign, { cwd }),
    { code: 2, err: /set SLUICE_API_KEY/ },
    'no other machine gets the key'
  )
  await chmod(file, 0o644)
  t.match(await runCommand(t, ['log', '--api', api], { cwd }), { code: 2, err: /other users may read.*chmod 600/ })
})

t.test('an upstream without a scheme is http, and `--listen off` opens no port of its own', async (t) => {
  const upstream = createServer((_request, response) => response.end('your service'))
  upstream.listen(0, '127.0.0.1')
  await once(upstream, 'listening')
  t.teardown(() => upstream.close())
  const { port } = upstream.address() as AddressInfo
  const cwd = t.testdir()
  const words = ['start', '--upstream', `127.0.0.1:${port}`, '--api', '127.0.0.1:0', '--data', ':memory:']
  const one = new SluiceProcess(t, [...words, '--listen', '127.0.0.1:0'], { cwd })
  const { traffic } = (await one.logged('listening')) as { traffic: string }
  t.equal(await (await fetch(traffic)).text(), 'your service')
  t.match(await one.told('no API key is shown here'), /set SLUICE_API_KEY/, 'a folder in memory has no file for a key')
  const env = { SLUICE_LISTENERS: `127.0.0.1:${await freePort()}` }
  const two = new SluiceProcess(t, [...words, '--listen', 'off'], { cwd, env })
  const listening = await two.logged('listening')
  t.equal(listening.traffic, `http://${env.SLUICE_LISTENERS}`)
  t.equal(await (await fetch(`http://${env.SLUICE_LISTENERS}`)).text(), 'your service')
  t.equal(listening.listeners, undefined, 'there is one listener alone')
  const bare = new SluiceProcess(t, [...words, '--listen', 'off'], { cwd })
  const nowhere = await bare.logged('listening')
  t.equal(nowhere.traffic, undefined, 'no address is named where none is open')
})

t.test('an account is exported while a process has its store open', async (t) => {
  const cwd = t.testdir()
  const sluice = new SluiceProcess(t, ['start', ...LISTEN], { cwd, env: { SLUICE_API_KEY: KEY } })
  const { api } = (await sluice.logged('listening')) as { api: string }
  const made = await fetch(`${api}/ip_policies`, {
    method: 'POST',
    headers: { authorization: `Bearer ${KEY}`, 'content-type': 'application/json', 'service-version': '2' },
    body: JSON.stringify({ description: 'made a moment ago' })
  })
  t.equal(made.status, 201)
  const before = (await readdir(tmpdir())).filter((name) => name.startsWith('sluice-export-'))
  const exported = await runCommand(t, ['export'], { cwd })
  t.match(exported, { code: 0, out: /made a moment ago/ }, exported.err)
  const after = (await readdir(tmpdir())).filter((name) => name.startsWith('sluice-export-'))
  t.same(after, before, 'the copy is removed')
  t.equal((await fetch(`${api}/readyz`)).status, 200)
})

t.test('a refused port below 1024 says what gives the right', (t) => {
  t.match(
    portPermission(80),
    `setcap cap_net_bind_service=+ep "${process.execPath}"`,
    'an executable has no other Node'
  )
  t.match(portPermission(80), /ip_unprivileged_port_start=80/)
  t.equal(portPermission(1024), undefined)
  const error = Object.assign(new Error('listen'), { code: 'EACCES', errno: -13, syscall: 'listen', port: 80 })
  const options = {
    listen: { host: '0.0.0.0', port: 80 },
    listeners: [],
    api: { listen: { host: '127.0.0.1', port: 1 } }
  }
  const [line] = explainStart(error, options as never) ?? []
  t.match(line, /^listen: this user may not listen on 0\.0\.0\.0:80 \(EACCES\); ports below 1024 need a right.*setcap/)
  t.end()
})

import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { readFile, rename, stat } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { SluiceProcess } from '../cli/process.js'
import { until } from '../helpers/until.js'

const FREE = ['--listen', '127.0.0.1:0', '--api', '127.0.0.1:0', '--data', ':memory:']

async function started(t: Test, options: Record<string, string>) {
  const origin = createServer((request, response) => {
    response.statusCode = Number(request.url?.slice(1, 4)) || 200
    response.end('yes')
  }).listen(0, '127.0.0.1')
  await once(origin, 'listening')
  t.teardown(() => {
    origin.closeAllConnections()
    origin.close()
  })
  const cwd = t.testdir()
  const upstream = ['--upstream', `http://127.0.0.1:${(origin.address() as AddressInfo).port}`]
  const env = { SLUICE_API_KEY: 'a-key-of-the-operator', ...options }
  const sluice = new SluiceProcess(t, ['start', ...FREE, ...upstream], { cwd, env })
  const { traffic } = (await sluice.logged('listening')) as { traffic: string }
  return { sluice, traffic, cwd }
}

const text = async (file: string) => await readFile(file, 'utf8').catch(() => '')

t.test('combined lines go into a file, which is opened anew on SIGUSR1', async (t) => {
  const options = { SLUICE_ACCESS_LOG_FORMAT: 'combined', SLUICE_ACCESS_LOG_FILE: 'access.log' }
  const { sluice, traffic, cwd } = await started(t, options)
  const file = join(cwd, 'access.log')
  const headers = { 'user-agent': 'a "quoted" \\ agent', referer: 'http://x.test/?token=secret' }
  await (await fetch(`${traffic}/a?b=c&password=secret`, { headers })).text()
  await until(async () => (await text(file)).includes('\n'))
  const line = await text(file)
  t.match(
    line,
    /^127\.0\.0\.1 - - \[\d\d\/[A-Z][a-z]{2}\/\d{4}:\d\d:\d\d:\d\d \+0000\] "GET \/a\?b=c&password=\S* HTTP\/1\.1" 200 \d+ "http:\/\/x\.test\/\?token=\S*" "a \\x22quoted\\x22 \\x5C agent"\n$/
  )
  t.notMatch(line, /secret/)
  t.equal((await stat(file)).mode & 0o777, 0o640)

  await rename(file, `${file}.1`)
  sluice.child.kill('SIGUSR1')
  await sluice.logged('the access log is opened anew')
  await (await fetch(`${traffic}/later`)).text()
  await until(async () => (await text(file)).includes('/later'))
  t.notMatch(await text(`${file}.1`), /later/)
  sluice.child.kill('SIGTERM')
  const { code, out } = await sluice.ended()
  t.equal(code, 0)
  t.notMatch(out, /"msg":"exchange"/, 'nothing of it is on standard output')
})

t.test('fields of choice, and a condition that samples', async (t) => {
  const { sluice, traffic } = await started(t, {
    SLUICE_ACCESS_LOG_FIELDS: 'status,path,request_id,code',
    SLUICE_ACCESS_LOG_WHERE: "res.status_code >= 400 || req.url.path == '/kept'"
  })
  for (const path of ['/200', '/404', '/kept', '/503']) await (await fetch(`${traffic}${path}`)).text()
  sluice.child.kill('SIGTERM')
  const { out } = await sluice.ended()
  const lines = out
    .split('\n')
    .filter((line) => line.startsWith('{"status"'))
    .map((line) => JSON.parse(line))
  t.match(lines, [
    { status: 404, path: '/404', code: null },
    { status: 200, path: '/kept' },
    { status: 503, path: '/503' }
  ])
  t.same(Object.keys(lines[0]), ['status', 'path', 'request_id', 'code'])
})

t.test('a syslog server gets a datagram for each line', async (t) => {
  const server = createSocket('udp4')
  server.bind(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  const received = once(server, 'message') as Promise<[Buffer]>
  const { traffic } = await started(t, { SLUICE_ACCESS_LOG_SYSLOG: `127.0.0.1:${server.address().port}` })
  await (await fetch(`${traffic}/seen`)).text()
  const [, json = ''] =
    /^<134>1 \d{4}-\d\d-\d\dT\S+Z \S+ sluice \d+ access - (\{.*\})$/.exec(String((await received)[0])) ?? []
  t.match(JSON.parse(json), { msg: 'exchange', path: '/seen', status: 200 })
})

t.test('what cannot be followed is told at start', async (t) => {
  const cwd = t.testdir()
  const told = async (env: Record<string, string>) => {
    const { code, err } = await new SluiceProcess(t, ['start', ...FREE], { cwd, env }).ended()
    return `${code} ${err}`
  }
  t.match(
    await told({ SLUICE_ACCESS_LOG_FIELDS: 'status,colour' }),
    /^1 access_log_fields: there is no field "colour"; give some of time,/
  )
  t.match(
    await told({ SLUICE_ACCESS_LOG_FILE: 'none/access.log' }),
    /^1 access_log_file: .*: there is no such file \(ENOENT\); correct/
  )
  t.match(
    await told({ SLUICE_ACCESS_LOG_WHERE: 'res.status_cod > 3' }),
    /^1 access_log_where: .*; correct the expression/
  )
  t.match(
    await told({ SLUICE_ACCESS_LOG_WHERE: '1 + 1' }),
    /^1 access_log_where: is of type int; give one of type bool$/
  )
  const both = { SLUICE_ACCESS_LOG_FILE: 'a', SLUICE_ACCESS_LOG_SYSLOG: '127.0.0.1:514' }
  t.match(await told(both), /^2 .*access_log_syslog: is given beside access_log_file/)
})

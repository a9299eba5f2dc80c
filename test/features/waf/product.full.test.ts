import { appendFileSync } from 'node:fs'
import { createServer, request } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { buildRules } from '../../../src/features/waf/build-rules.js'
import { asker } from '../../api/asking.js'
import { startSluice, THREADS_SERVE } from '../../helpers/sluice.js'
import { until } from '../../helpers/until.js'
import { startRoute } from '../route.js'
import { writeRules } from './crs-like.js'

const POLICY = `on_http_request:
  - actions:
      - type: owasp-crs-request
        config:
          process_body: true
`

/** The product with the rules and the policy, before an upstream that answers how many bytes it has received. */
async function start(t: Test, policy = POLICY, shown: (size: number) => string = String) {
  const server = createServer((incoming, response) => {
    let size = 0
    incoming.on('data', (piece: Buffer) => {
      size += piece.length
    })
    incoming.on('end', () => response.end(shown(size)))
  }).listen(0, '127.0.0.1')
  await new Promise((listening) => server.once('listening', listening))
  t.teardown(() => {
    server.close()
    server.closeAllConnections()
  })
  const { port: upstream } = server.address() as AddressInfo
  const options = { WAF_RULES: writeRules(t.testdir()) }
  const { port } = await startSluice(t, { upstream: { port: upstream }, policy, options })
  return (path: string, pieces: readonly string[] = [], type = 'application/x-www-form-urlencoded') =>
    new Promise<string>((resolve, reject) => {
      const method = pieces.length === 0 ? 'GET' : 'POST'
      const headers = { host: 'app.example.com', ...(pieces.length === 0 ? {} : { 'content-type': type }) }
      const sent = request({ host: '127.0.0.1', port, path, method, headers, agent: false }, (response) => {
        const { 'sluice-error-code': code } = response.headers
        const received: Buffer[] = []
        response.on('data', (piece: Buffer) => received.push(piece))
        response.on('end', () =>
          resolve(`${response.statusCode} ${code === undefined ? Buffer.concat(received).toString() : String(code)}`)
        )
      })
      sent.on('error', reject)
      for (const piece of pieces) sent.write(piece)
      sent.end()
    })
}

t.test('requests are examined by the rules of the folder, and their bodies arrive whole', async (t) => {
  const send = await start(t)
  t.equal(await send('/?q=1'), '200 0')
  t.equal(await send('/?q=%3Cscript%3E'), '403 WAF_REQUEST_DENIED')
  t.equal(await send('/', ['q=', 'harmless']), '200 10')
  t.equal(await send('/', ['q=%3C', 'script']), '403 WAF_REQUEST_DENIED')
  t.equal(await send('/', ['q=', 'a'.repeat(300_000), '%3Cscript']), '200 300011', 'beyond the examined beginning')
  t.equal(await send('/', ['{"a": ', 'x}'], 'application/json'), '400 WAF_BODY_INVALID')
})

t.test('a policy with the action is refused without the option', async (t) => {
  const { api, path } = await startRoute(t, (_, response) => response.end('ok'))
  const value = JSON.stringify({ on_http_request: [{ actions: [{ type: 'owasp-crs-request' }] }] })
  const { status, text } = await api('PUT', `${path}/traffic_policy`, { enabled: true, value })
  t.equal(status, 400)
  t.match(text, /name its folder in the option waf\.rules/)
})

t.test('responses are examined by the rules of the folder', async (t) => {
  const policy = `on_http_response:
  - actions:
      - type: owasp-crs-response
        config:
          process_body: true
`
  const safe = await start(t, policy, () => 'harmless')
  t.equal(await safe('/'), '200 harmless')
  const source = await start(t, policy, () => '<?php echo 1;')
  t.equal(await source('/'), '403 WAF_RESPONSE_DENIED')
  const beyond = await start(t, policy, () => `${'a'.repeat(100_000)}<?php`)
  t.match(await beyond('/'), /^200 a{100000}<\?php$/, 'only the beginning is examined')
})

const needsNode = THREADS_SERVE ? false : 'Node older than 24 gives no socket to another thread'

t.test(
  'threads have the rules of the process, and records and processes show their version',
  { skip: needsNode, timeout: 180_000 },
  async (t) => {
    const rules = writeRules(t.testdir())
    const server = createServer((_, response) => response.end('ok')).listen(0, '127.0.0.1')
    await new Promise((listening) => server.once('listening', listening))
    t.teardown(() => server.close())
    const { port: upstream } = server.address() as AddressInfo
    const options = { WAF_RULES: rules, RECORDER_WHERE: 'res.status_code > 0' }
    const sluice = await startSluice(t, { upstream: { port: upstream }, policy: POLICY, options, threads: 2 })
    const status = async (path: string) => {
      const { status } = await fetch(`http://127.0.0.1:${sluice.port}${path}`, { headers: { connection: 'close' } })
      return status
    }
    const ask = asker('127.0.0.1', sluice.apiPort)
    const read = async (path: string) => (await ask(path, { key: sluice.apiKey })).json
    const version = async (): Promise<unknown> => (await read('/processes')).processes[0].waf
    const { source, digest } = await buildRules(rules, { skip_unknown: false })
    const first = { rules: source.signature, digest }
    t.same(await version(), first)
    for (let i = 0; i < 4; i++) t.equal(await status('/?q=%3Cscript%3E'), 403)
    t.equal(await status('/?q=forbidden'), 200)
    const recorded = (await read('/exchanges')).exchanges
    t.equal(recorded.length, 5)
    t.same((await read(`/exchanges/${recorded[0].id}`)).waf_rules, first)
    appendFileSync(
      join(rules, 'rules', 'REQUEST-900.conf'),
      '\nSecRule ARGS "@streq forbidden" "id:999001,phase:1,deny,msg:\'Word\',severity:\'CRITICAL\'"\n'
    )
    await sluice.line(({ msg }) => msg === 'the rules of the folder are read again')
    t.not(((await version()) as typeof first).digest, digest)
    await until(async () => (await status('/?q=forbidden')) === 403)
    for (let i = 0; i < 4; i++) t.equal(await status('/?q=forbidden'), 403)
  }
)

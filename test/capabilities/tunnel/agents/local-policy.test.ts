import { createHash } from 'node:crypto'
import { get, request } from 'node:http'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import t from 'tap'
import { runAgent } from '../../../../src/capabilities/tunnel/command-run.js'
import { account, visit } from '../../../helpers/account.js'
import { engines } from '../../../helpers/sluice.js'
import { Output } from '../agent-output.js'
import { answerOf, body } from '../agent-suite.js'
import { hashOf, pattern, Upstream } from '../upstream.js'
import { startProduct } from './product.js'

const HOST = 'app.example.com'

/** Adds a header to answers, and denies a path. */
const policy = (header: string, path: string) =>
  JSON.stringify({
    on_http_request: [
      { expressions: [`req.url.path == '${path}'`], actions: [{ type: 'deny', config: { status_code: 418 } }] },
      { actions: [{ type: 'add-headers', config: { headers: { [`${header}-client`]: `\${conn.client_ip}` } } }] }
    ],
    on_http_response: [{ actions: [{ type: 'add-headers', config: { headers: { [header]: 'ran' } } }] }]
  })

for (const engine of engines) {
  t.test(`${engine}: the server's policy, then the agent's, then the target`, async (t) => {
    const product = await startProduct(t, { engine })
    const { sluice, agents } = product
    const { token } = await product.credential()
    await product.site(HOST, { app: 'web' }, { traffic_policy: { value: policy('x-server', '/server') } })
    const upstream = await Upstream.start(t)
    const folder = t.testdir({ 'policy.json': policy('x-agent', '/agent'), 'ca.pem': agents.ca })
    const out = new Output()
    const flags = {
      server: agents.address,
      ca: join(folder, 'ca.pem'),
      label: ['app=web'],
      policy: join(folder, 'policy.json'),
      forward: `http://127.0.0.1:${upstream.port}`
    }
    const running = runAgent(flags, { SLUICE_TOKEN: token }, out)
    await out.until(/app=web -> /)
    const seen = async (path: string) => {
      const { status, headers } = await visit(sluice, HOST, { path })
      return [status, headers['x-server'], headers['x-agent']]
    }
    t.same(await seen('/'), [200, 'ran', 'ran'])
    t.same(await seen('/server'), [418, 'ran', undefined], 'what the server refuses does not reach the agent')
    t.same(await seen('/agent'), [418, 'ran', 'ran'], 'what the agent refuses passes the server')
    const options = { host: '127.0.0.1', port: sluice.port, headers: { host: HOST }, agent: false }
    const size = 2_000_003
    const upload = request({ ...options, path: '/hash', method: 'POST' })
    Readable.from(pattern(size)).pipe(upload)
    t.equal(await body(await answerOf(upload)), hashOf(size))
    const hash = createHash('sha256')
    const download = await answerOf(get({ ...options, path: `/bytes?count=${size}` }))
    for await (const chunk of download) hash.update(chunk as Buffer)
    t.equal(hash.digest('hex'), hashOf(size))
    const events = (await answerOf(get({ ...options, path: '/events' })))[Symbol.asyncIterator]()
    t.equal(String((await events.next()).value), 'data: 1\n\n')
    upstream.emit('next event')
    t.equal(String((await events.next()).value), 'data: 2\n\n')
    t.ok((await events.next()).done)
    upstream.stop()
    t.same(await seen('/'), [502, 'ran', 'ran'])
    const { tunnel_sessions } = (await account(sluice)('/tunnel_sessions')).json
    await account(sluice)(`/tunnel_sessions/${tunnel_sessions[0].id}/stop`, { method: 'POST', body: {} })
    t.equal(await running, 0)
  })
}

import { connect } from 'node:net'
import { join } from 'node:path'
import t from 'tap'
import { runAgent } from '../../../../src/capabilities/tunnel/command-run.js'
import { account } from '../../../helpers/account.js'
import { RawPeer } from '../../../helpers/raw-client.js'
import { engines } from '../../../helpers/sluice.js'
import { RawUpstream } from '../../../helpers/upstream.js'
import { Output } from '../agent-output.js'
import { ourAgent } from '../our-agent.js'
import { type Product, startProduct } from './product.js'

const onResponse = (type: string, config: object) =>
  JSON.stringify({ on_http_response: [{ actions: [{ type, config }] }] })
/** Policies that touch an answer in different ways. */
const POLICIES: Readonly<Record<string, string>> = {
  headers: onResponse('add-headers', { headers: { 'x-policy': 'ran' } }),
  compressing: onResponse('compress-response', { algorithms: ['gzip'] }),
  replacing: onResponse('response-body-find-replace', { replacements: [{ from: 'some', to: 'more' }] }),
  events: JSON.stringify({
    on_event_stream_message: [
      { actions: [{ type: 'sse-find-replace', config: { replacements: [{ from: 'some', to: 'more' }] } }] }
    ]
  })
}
const CHUNKED = 'HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n'
/** The first half of an answer. */
const HALVES: Readonly<Record<string, string>> = {
  'a length': 'HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5000\r\n\r\nsome',
  'a chunk': `${CHUNKED}64\r\nsome`,
  'chunks without the last': `${CHUNKED}4\r\nsome\r\n`,
  'events in chunks':
    'HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\nc\r\ndata: some\n\n\r\n',
  'the rest of the connection': 'HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\nsome'
}

/** Runs an agent for `app=<name>` with the policy of that name, which forwards to `port`, until it is stopped. */
async function guarded(product: Product, folder: string, name: string, port: number) {
  const { token } = await product.credential()
  const out = new Output()
  const flags = {
    server: product.agents.address,
    ca: join(folder, 'ca.pem'),
    label: [`app=${name}`],
    forward: `http://127.0.0.1:${port}`,
    policy: join(folder, `${name}.json`)
  }
  return await runAgent(flags, { SLUICE_TOKEN: token }, out)
}

for (const engine of engines) {
  t.test(`${engine}: half an answer does not look whole, whatever policies do with it on its way`, async (t) => {
    const product = await startProduct(t, { engine })
    const upstream = await RawUpstream.start(t)
    const files = Object.entries(POLICIES).map(([name, policy]) => [`${name}.json`, policy] as const)
    const folder = t.testdir({ 'ca.pem': product.agents.ca, ...Object.fromEntries(files) })
    const { token } = await product.credential()
    const plain = await ourAgent.start(product.agents, token, { labels: { app: 'plain' }, target: upstream.port })
    t.teardown(() => plain.close())
    const agents: Promise<number>[] = []
    for (const [name, policy] of Object.entries(POLICIES)) {
      await product.site(`${name}.here.test`, { app: 'plain' }, { traffic_policy: { value: policy } })
      await product.site(`${name}.there.test`, { app: name })
      agents.push(guarded(product, folder, name, upstream.port))
    }
    await product.until('/tunnels', ({ tunnels }) => (tunnels as unknown[]).length === agents.length + 1)
    for (const name of Object.keys(POLICIES)) {
      for (const where of ['here', 'there']) {
        for (const [framing, half] of Object.entries(HALVES)) {
          for (const how of ['end', 'reset'] as const) {
            // Whole: nothing else tells where it ends.
            if (how === 'end' && framing === 'the rest of the connection') continue
            const client = new RawPeer(connect({ host: '127.0.0.1', port: product.sluice.port, allowHalfOpen: true }))
            client.send(`GET / HTTP/1.1\r\nHost: ${name}.${where}.test\r\nAccept-Encoding: gzip\r\n\r\n`)
            const peer = await upstream.next()
            await peer.request()
            peer.send(half)
            // Policies may hold everything back until the end, so that nothing may come before the break.
            for (let turn = 0; turn < 20 && client.text === ''; turn++) await new Promise(setImmediate)
            peer[how]()
            const answer = client.answer()
            const whole = await answer.then(
              ({ status }) => status,
              () => 'not whole'
            )
            t.ok(whole === 'not whole' || whole === 502, `${name}.${where}, ${framing}, ${how}: ${whole}`)
            client.socket.destroy()
            peer.socket.destroy()
          }
        }
      }
    }
    const { tunnel_sessions } = (await account(product.sluice)('/tunnel_sessions')).json
    for (const { id } of tunnel_sessions) {
      await account(product.sluice)(`/tunnel_sessions/${id}/stop`, { method: 'POST', body: {} })
    }
    t.same(new Set(await Promise.all(agents)), new Set([0]))
  })
}

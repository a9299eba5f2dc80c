import t, { type Test } from 'tap'
import type { Clock } from '../../src/lib/clock.js'
import type { ServerTransport } from '../../src/transport/contract.js'
import { nodeServerTransport } from '../../src/transport/http-proxy/server.js'
import { codecServerTransport } from '../../src/transport/http1/server.js'
import { http2Back } from '../../src/transport/http2/client.js'
import { Http2Bridge } from './http2-bridge.js'
import { breaks } from './suite/breaks.js'
import { connections } from './suite/connections.js'
import { endings } from './suite/endings.js'
import type { Make } from './suite/harness.js'
import { requests } from './suite/requests.js'
import { responses } from './suite/responses.js'
import { storms } from './suite/storms.js'

/** The suites of the engines with HTTP/2 to the upstream: clients of HTTP/1.1, a connection of HTTP/2, scripted peers of HTTP/1.1. */
const fronts: Readonly<Record<string, (parts: { clock: Clock }) => ServerTransport>> = {
  codec: codecServerTransport,
  'node:http': nodeServerTransport
}

/** Tests of what HTTP/2 does not carry, and why; `http2-upstream.test.ts` has what takes their place. */
const CASE = 'names of fields are in lower case (RFC 9113 8.2)'
const REASON = 'there is no reason phrase (RFC 9113 8.3.2)'
const WEBSOCKET = 'its upstream does not answer the key of the client, which this side has to check (RFC 8441 5)'
const OTHERWISE: ReadonlyMap<string, string> = new Map([
  ['a GET keeps its target, its fields, their case and repetition', CASE],
  ['heads keep the bytes of their fields while their bodies are still to come', CASE],
  ['trailers pass, except those that frame, route or authenticate', CASE],
  ['trailers that may not be trailers are dropped from requests and mean nothing', CASE],
  ['trailers that may not be trailers are dropped from answers and mean nothing', CASE],
  ['an answer may be split anywhere; bytes behind its last chunk end its connection', CASE],
  ['status, reason, field case and repeated fields stay', REASON],
  ['HTTP/1.0 clients get no chunks and a closed connection', 'a request without a host is malformed (RFC 9113 8.3.1)'],
  ['an upstream that breaks in mid-body aborts the message of the client', 'there are no chunks that can be malformed'],
  [
    'an answer that a policy replaces leaves its upstream connection usable, or ends it',
    'an answer that nobody takes ends its stream alone'
  ],
  ['an upgrade joins both pipes, with the first bytes of each and half-close', WEBSOCKET],
  ['a break of one side of an upgrade breaks the other', WEBSOCKET],
  ['a joined pipe holds a fast side back', WEBSOCKET],
  ['drain: what is left at the deadline is cut; a pipe gets FIN, a second later RST', WEBSOCKET]
])

const met = new Set<string>()

/** Leaves out what `OTHERWISE` names. */
function fitting(t: Test): Test {
  return new Proxy(t, {
    get(target, key) {
      if (key === 'test')
        return (name: string, run: (t: Test) => unknown) => {
          const why = OTHERWISE.get(name)
          met.add(name)
          return why === undefined ? target.test(name, run as never) : Promise.resolve()
        }
      const value: unknown = Reflect.get(target, key)
      return typeof value === 'function' ? value.bind(target) : value
    }
  })
}

const suites = { requests, responses, breaks, endings, connections, storms }
for (const [front, transport] of Object.entries(fronts)) {
  for (const [name, suite] of Object.entries(suites)) {
    t.test(`${front} before HTTP/2: ${name}`, async (t) => {
      const bridge = await Http2Bridge.start(t)
      const make: Make = (parts) => ({ front: transport(parts), back: bridge.before(http2Back(parts)) })
      suite(fitting(t), make)
    })
  }
}

t.test('every exception is a test that is there', async (t) => {
  for (const name of OTHERWISE.keys()) t.ok(met.has(name), name)
})

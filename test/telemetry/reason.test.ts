import t from 'tap'
import type { ConnectionFacts } from '../../src/flow/exchange.js'
import { Flow } from '../../src/flow/flow.js'
import { isRefusedOrFailed, type ReasonFacts, reasonOf } from '../../src/telemetry/reason.js'
import { UpstreamTries } from '../../src/telemetry/upstream-tries.js'

const end = { address: '127.0.0.1', port: 1 }
const connection: ConnectionFacts = {
  id: 1,
  listener: 'l',
  peer: end,
  local: end,
  startedAt: 0,
  bytesIn: 0,
  bytesOut: 0
}
const entry = { id: 'l', protocol: 'http', host: '', port: 80, region: '' } as const

function flowWith(fields: Partial<Pick<Flow, 'decidedBy' | 'refusal'>>): Flow {
  return Object.assign(new Flow(connection, entry, '127.0.0.1', 1), fields)
}

function tried(count: number, failure: 'dial-refused' | undefined, name = 'shop'): UpstreamTries {
  const tries = new UpstreamTries()
  const server = 'http://127.0.0.1:3000'
  for (let i = 0; i < count; i++)
    tries.add({ backend: 'b', name, server, connect: undefined, firstByte: undefined, status: undefined, failure })
  return tries
}

const facts = (given: Partial<ReasonFacts>): ReasonFacts => ({
  status: 200,
  code: undefined,
  flow: undefined,
  site: 'app.test',
  tries: undefined,
  ...given
})

const rule = (name: string, action: string) => ({ phase: 'on_http_request', rule: name, action }) as const

t.test('the reason of a refusal or failure is one sentence with names of the configuration', async (t) => {
  const limited = flowWith({
    decidedBy: rule('#0', 'rate-limit'),
    refusal: { limit: { name: 'per key', used: 60, capacity: 60, seconds: 60 }, retryAfter: 12 }
  })
  const cases: [Partial<ReasonFacts>, string][] = [
    [
      { status: 429, code: 'RATE_LIMITED', flow: limited },
      '429 by limit "per key": 60 of 60 in 60s; free again in 12s'
    ],
    [
      { status: 403, flow: flowWith({ decidedBy: rule('closed', 'custom-response') }) },
      '403 by custom-response, rule "closed"'
    ],
    [
      { status: 403, flow: flowWith({ decidedBy: rule('#1', 'custom-response') }) },
      '403 by custom-response (on_http_request, rule 2)'
    ],
    [{ status: 404, code: 'NO_ROUTE' }, '404: the site app.test has no route for this path'],
    [{ status: 404, code: 'NO_ROUTE', site: undefined }, '404: no site has this host'],
    [{ status: 500, tries: tried(1, undefined) }, '500 from backend "shop" (http://127.0.0.1:3000)'],
    [
      { status: 502, code: 'UPSTREAM_REFUSED', tries: tried(2, 'dial-refused') },
      '502 from backend "shop" (http://127.0.0.1:3000) after 2 tries: no connection to the upstream could be opened'
    ],
    [
      { status: 503, code: 'CIRCUIT_OPEN', flow: flowWith({ refusal: { retryAfter: 5 } }) },
      /^503 CIRCUIT_OPEN: .*; free again in 5s$/.source
    ]
  ]
  for (const [given, said] of cases) {
    const reason = reasonOf(facts(given)) ?? ''
    if (said.startsWith('^')) t.match(reason, new RegExp(said))
    else t.equal(reason, said)
  }
  t.match(
    reasonOf(facts({ status: 0, sent: { failure: 'client-gone' } })),
    /^closed CLIENT_GONE: the client has disconnected/
  )
})

t.test('an exchange that passed has no reason', async (t) => {
  t.equal(reasonOf(facts({ status: 204 })), undefined)
  t.equal(reasonOf(facts({ status: 302, flow: flowWith({ decidedBy: rule('moved', 'redirect') }) })), undefined)
  t.equal(isRefusedOrFailed(facts({ status: 399 })), false)
  t.equal(isRefusedOrFailed(facts({ status: 400 })), true)
})

import t from 'tap'
import { codecBack } from '../../src/engine/codec/codec-back.js'
import { codecFront } from '../../src/engine/codec/codec-front.js'
import type { Back, Dialer } from '../../src/engine/contract.js'
import { httpFront } from '../../src/engine/http-front/http-front.js'
import { httpProxyBack } from '../../src/engine/http-proxy/http-proxy-back.js'
import { systemClock } from '../../src/lib/clock.js'
import { Agent } from '../../src/tunnel/agent/agent.js'
import { labelDialer } from '../../src/tunnel/dialer.js'
import { connections } from '../engine/suite/connections.js'
import { endings } from '../engine/suite/endings.js'
import type { Make } from '../engine/suite/harness.js'
import { requests } from '../engine/suite/requests.js'
import { storms } from '../engine/suite/storms.js'
import { AgentServer, TOKEN } from './agent-server.js'

const server = await AgentServer.start(t)
const agents = new Map<
  number,
  { readonly agent: Agent; readonly bound: Promise<void>; readonly running: Promise<void> }
>()
t.teardown(async () => {
  for (const { agent, running } of agents.values()) {
    agent.stop()
    await running
  }
})

/** An agent that forwards to the port. */
function agentFor(port: number): Promise<void> {
  const known = agents.get(port)
  if (known !== undefined) return known.bound
  let done: () => void = () => undefined
  const bound = new Promise<void>((resolve) => {
    done = resolve
  })
  const agent = new Agent({
    server: { host: '127.0.0.1', port: server.port, ca: server.ca },
    token: TOKEN,
    tunnels: [{ labels: { port: String(port) }, forwardsTo: '', target: { kind: 'tcp', host: '127.0.0.1', port } }],
    version: '0',
    clock: systemClock,
    random: Math.random,
    wait: async () => undefined,
    report: ({ kind }) => kind === 'bound' && done()
  })
  agents.set(port, { agent, bound, running: agent.run() })
  return bound
}

/** The same upstream, reached through an agent. */
function tunnelled({ key, reusable }: Dialer): Dialer {
  const port = Number(/:(\d+)/.exec(key)?.[1])
  return {
    key,
    reusable,
    async open(why) {
      await agentFor(port)
      return labelDialer(server.registry, { port: String(port) }, 'http').open(why)
    }
  }
}

/** As `proxy/forwarder` does, a GET is sent again: an upstream's end comes later here than on a socket of one's own. */
function through(back: Back): Back {
  return {
    async forward(exchange, dialer, options) {
      const answer = await back.forward(exchange, tunnelled(dialer), options)
      const again = answer.kind === 'failed' && answer.retry !== 'never' && options.head.method === 'GET'
      return again ? back.forward(exchange, tunnelled(dialer), options) : answer
    },
    retainUpstreams: (keys) => back.retainUpstreams(keys),
    close: () => back.close()
  }
}

// The rest of the suite is about dialing: what failed, and what may be tried again on another connection.
const engines: readonly (readonly [string, Make])[] = [
  ['codec', (parts) => ({ front: codecFront(parts), back: through(codecBack(parts)) })],
  ['http-proxy', (parts) => ({ front: httpFront(parts), back: through(httpProxyBack(parts)) })]
]
for (const [name, make] of engines) {
  t.test(`${name} through a tunnel: requests`, async (t) => requests(t, make))
  t.test(`${name} through a tunnel: endings`, async (t) => endings(t, make))
  t.test(`${name} through a tunnel: connections`, async (t) => connections(t, make))
  t.test(`${name} through a tunnel: storms`, async (t) => storms(t, make))
}

import { Agent } from '../../../src/capabilities/tunnel/client/agent.js'
import { labelDialer } from '../../../src/capabilities/tunnel/server/dialer.js'
import { systemClock } from '../../../src/lib/clock.js'
import type { ClientTransport, Dialer } from '../../../src/transport/contract.js'
import { type AgentServer, TOKEN } from './agent-server.js'

interface Running {
  readonly agent: Agent
  readonly bound: Promise<void>
  readonly running: Promise<void>
}

/** What the upstreams of the engine suite are dialled by. */
const UPSTREAM = /^tcp 127\.0\.0\.1:(\d+)$/

/** The upstreams of the engine suite, each reached through an agent of its own. */
export class TunnelledUpstreams {
  readonly #server: AgentServer
  readonly #agents = new Map<number, Running>()

  constructor(server: AgentServer) {
    this.#server = server
  }

  /**
   * The back with every upstream behind a tunnel. Where `again` is set, a GET that may be tried again is, as
   * `proxy/forwarder` does it: an upstream's end comes later here than on a socket of one's own.
   */
  through(back: ClientTransport, again: boolean): ClientTransport {
    return {
      forward: (exchange, dialer, options, answered) =>
        back.forward(exchange, this.#dialer(dialer), options, (answer) => {
          const repeat = again && answer.kind === 'failed' && answer.retry !== 'never' && options.head.method === 'GET'
          if (repeat) back.forward(exchange, this.#dialer(dialer), options, answered)
          else answered(answer)
        }),
      retainUpstreams: (keys) => back.retainUpstreams(keys),
      endUpstream: (key) => back.endUpstream(key),
      close: () => back.close()
    }
  }

  async stop(): Promise<void> {
    for (const { agent, running } of this.#agents.values()) {
      agent.stop()
      await running
    }
  }

  /**
   * A dialer that is a test's own stays as it is: it stands for a dial that takes its time, and a tunnel's takes none, because
   * an agent has no way to say that it has taken a stream.
   */
  #dialer(direct: Dialer): Dialer {
    const { key, reusable, lenient = false } = direct
    const port = UPSTREAM.exec(key)?.[1]
    if (port === undefined) return direct
    return {
      key,
      reusable,
      lenient,
      open: async (why) => {
        await this.#agentFor(Number(port))
        return labelDialer(this.#server.registry, { port }, 'http').open(why)
      }
    }
  }

  /** Resolves when an agent forwards to the port. */
  #agentFor(port: number): Promise<void> {
    const known = this.#agents.get(port)
    if (known !== undefined) return known.bound
    let done: () => void = () => undefined
    const bound = new Promise<void>((resolve) => {
      done = resolve
    })
    const agent = new Agent({
      server: { host: '127.0.0.1', port: this.#server.port, ca: this.#server.ca },
      token: TOKEN,
      tunnels: [{ labels: { port: String(port) }, forwardsTo: '', target: { kind: 'tcp', host: '127.0.0.1', port } }],
      version: '0',
      clock: systemClock,
      random: Math.random,
      wait: async () => undefined,
      report: ({ kind }) => kind === 'bound' && done()
    })
    this.#agents.set(port, { agent, bound, running: agent.run() })
    return bound
  }
}

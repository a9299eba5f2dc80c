import type { Test } from 'tap'
import type { Exchange, Outgoing } from '../../src/flow/exchange.js'
import { systemClock } from '../../src/lib/clock.js'
import {
  type ClientTransport,
  type Dialer,
  type ForwardOptions,
  forwardTo,
  type Listening
} from '../../src/transport/contract.js'
import { tcpDialer } from '../../src/transport/dialers.js'
import { codecBack } from '../../src/transport/http1/forwarding.js'
import { codecServerTransport } from '../../src/transport/http1/server.js'

/** Where the bridge sends a request on: a key of the dialers that it knows. */
const TO = 'x-bridge-to'
/** How the bridge says that it got no answer. */
const FAILED = 599
const WHY = 'x-bridge-why'
const LIMITS = {
  headerBytes: 1_048_576,
  headers: 4000,
  targetBytes: 65_536,
  headTimeout: 0,
  bodyIdle: 0,
  keepAlive: 0,
  connections: 0
}

/** A server of HTTP/2 in front of the scripted upstreams, which speak HTTP/1.1. What fails behind it comes back as it is. */
export class Http2Bridge {
  readonly #dialers = new Map<string, Dialer>()
  readonly #back = codecBack({ clock: systemClock })
  #listening: Listening | undefined = undefined

  static async start(t: Test): Promise<Http2Bridge> {
    const bridge = new Http2Bridge()
    const front = codecServerTransport({ clock: systemClock })
    bridge.#listening = await front.listen(
      { host: '127.0.0.1', port: 0 },
      { name: 'bridge', limits: LIMITS },
      {
        connection: () => true,
        refused: () => undefined,
        exchange: (exchange) => bridge.#pass(exchange)
      }
    )
    t.teardown(async () => {
      bridge.#back.close()
      await bridge.#listening?.drain(0)
    })
    return bridge
  }

  /** `back`, with HTTP/2 by prior knowledge between it and the upstreams of its dialers. */
  before(back: ClientTransport): ClientTransport {
    return {
      forward: (exchange, dialer, options, answered) => {
        this.#dialers.set(dialer.key, dialer)
        const { port = 0 } = this.#listening?.address ?? {}
        const head = { ...options.head, headers: [...options.head.headers, TO, dialer.key] }
        const over = tcpDialer({ host: '127.0.0.1', port, http2: true })
        back.forward(exchange, over, { ...options, head }, (answer) => {
          if (answer.kind !== 'response' || answer.head.status !== FAILED) {
            answered(answer)
            return
          }
          answer.body.discard()
          const at = answer.head.headers.indexOf(WHY)
          answered({ kind: 'failed', ...JSON.parse(answer.head.headers[at + 1] ?? '{}') })
        })
      },
      endUpstream: (key) => back.endUpstream(key),
      retainUpstreams: (keys) => {
        back.retainUpstreams(keys)
        this.#back.retainUpstreams(keys)
      },
      close: () => back.close()
    }
  }

  async #pass(exchange: Exchange): Promise<void> {
    const { headers } = exchange.request
    const kept: string[] = []
    let to = ''
    for (let i = 0; i < headers.length; i += 2) {
      const [name, value] = [headers[i] as string, headers[i + 1] as string]
      if (name === TO) to = value
      else kept.push(name, value)
    }
    const dialer = this.#dialers.get(to)
    if (dialer === undefined) throw new Error(`the bridge does not know ${to}`)
    const body: Outgoing = exchange.request.body
    const options: ForwardOptions = {
      head: { ...exchange.request, headers: kept },
      body,
      connectTimeout: 0,
      responseTimeout: 0,
      idleTimeout: 0,
      onInform: (head) => exchange.inform(head)
    }
    const answer = await forwardTo(this.#back, exchange, dialer, options)
    if (answer.kind === 'response') await exchange.respond(answer.head, answer.body)
    else if (answer.kind === 'switched') await exchange.splice(answer.head, answer.pipe)
    else {
      const { failure, retry, detail } = answer
      await exchange.respond({ status: FAILED, headers: [WHY, JSON.stringify({ failure, retry, detail })] })
    }
  }
}

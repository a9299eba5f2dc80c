import { once } from 'node:events'
import { Agent, createServer, type IncomingMessage, request, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { type Duplex, pipeline } from 'node:stream'
import type { Dialer } from '../../../src/transport/contract.js'
import { open } from './agent-server.js'

interface Teardown {
  teardown(run: () => unknown): void
}

/** The least HTTP proxy that dials through a dialer: node's own client with keep-alive, upgrades joined. */
export class Front {
  readonly #server: Server
  readonly #agent: Agent

  private constructor(dialer: Dialer) {
    this.#agent = new Agent({ keepAlive: true })
    // The typed signature knows sockets only; node takes any Duplex.
    const dialing = this.#agent as unknown as {
      createConnection(options: object, done: (error: Error | null, stream?: Duplex) => void): void
    }
    dialing.createConnection = (_options, done) => {
      open(dialer).then(
        ({ duplex }) => done(null, duplex),
        (error: Error) => done(error)
      )
    }
    this.#server = createServer((incoming, answer) => {
      const forwarded = this.#forward(incoming)
      forwarded.on('response', (response) => {
        answer.writeHead(response.statusCode ?? 502, response.rawHeaders)
        response.on('data', (chunk: Buffer) => {
          if (!answer.write(chunk)) response.pause()
        })
        answer.on('drain', () => response.resume())
        response.on('end', () => answer.end())
        response.on('close', () => {
          if (!response.complete) answer.destroy()
        })
      })
      forwarded.on('error', (error) => {
        if (answer.headersSent) answer.destroy()
        else answer.writeHead(502).end(error.message)
      })
      answer.on('close', () => {
        if (!answer.writableFinished) forwarded.destroy()
      })
      incoming.pipe(forwarded)
    })
    this.#server.on('upgrade', (incoming: IncomingMessage, visitor: Duplex, head: Buffer) => {
      const forwarded = this.#forward(incoming)
      forwarded.on('error', () => visitor.destroy())
      forwarded.on('upgrade', (response, upstream, first) => {
        const fields = response.rawHeaders
          .map((text, index) => (index % 2 === 0 ? `${text}: ` : `${text}\r\n`))
          .join('')
        visitor.write(`HTTP/1.1 101 Switching Protocols\r\n${fields}\r\n`)
        visitor.write(first)
        upstream.write(head)
        pipeline(visitor, upstream, () => undefined)
        pipeline(upstream, visitor, () => undefined)
      })
      forwarded.end()
    })
  }

  static async start(t: Teardown, dialer: Dialer): Promise<Front> {
    const front = new Front(dialer)
    front.#server.listen(0, '127.0.0.1')
    await once(front.#server, 'listening')
    t.teardown(() => {
      front.#agent.destroy()
      front.#server.close()
      front.#server.closeAllConnections()
    })
    return front
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}`
  }

  #forward({ method = 'GET', url = '/', rawHeaders }: IncomingMessage) {
    const options = { method, path: url, headers: rawHeaders, agent: this.#agent }
    return request(options as object)
  }
}

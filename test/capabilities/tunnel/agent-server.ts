import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { type AddressInfo, createServer as createTcpServer, type Server, type Socket } from 'node:net'
import { pipeline } from 'node:stream'
import { createServer, type TLSSocket } from 'node:tls'
import { type AgentsIdentity, openAgentsIdentity } from '../../../src/capabilities/tunnel/agents/listener-identity.js'
import {
  type AgentFacts,
  type BindDenied,
  BindRules,
  type Grant,
  type TunnelAuthority
} from '../../../src/capabilities/tunnel/server/authority.js'
import type { EndpointOpener, EndpointWish, OpenEndpoint } from '../../../src/capabilities/tunnel/server/binding.js'
import { TunnelListener } from '../../../src/capabilities/tunnel/server/listener.js'
import { type RegisteredSession, Registry, type TunnelWatch } from '../../../src/capabilities/tunnel/server/registry.js'
import type { TunnelLimits } from '../../../src/capabilities/tunnel/server/tunnel.js'
import type { BytePipe, ConnectionFacts } from '../../../src/flow/exchange.js'
import { type Clock, systemClock } from '../../../src/lib/clock.js'
import type { Dialer } from '../../../src/transport/contract.js'
import { AbortList } from '../../../src/transport/deadlines.js'

export const TOKEN = 'a-token-for-tests'
export const ZONE = 'sluice.test'

interface Teardown {
  teardown(run: () => unknown): void
}

export interface TestGrant extends Grant {
  readonly rules: BindRules
}

export interface AgentServerSetup {
  readonly limits?: Partial<TunnelLimits>
  readonly clock?: Clock
  /** Rules by token. */
  readonly tokens?: Readonly<Record<string, readonly string[]>>
  readonly secret?: Uint8Array
  readonly port?: number
  readonly identity?: AgentsIdentity
  readonly watch?: TunnelWatch<TestGrant>
  authenticate?(token: string, facts: AgentFacts): Promise<TestGrant | BindDenied>
}

/** One authority for all tests of a process. */
export const identity = openAgentsIdentity(undefined, ['localhost', '127.0.0.1'], systemClock)

/** The agent listener behind real TLS, with an authority that knows tokens and an opener that keeps what it opened. */
export class AgentServer implements TunnelAuthority<TestGrant>, EndpointOpener<TestGrant> {
  readonly registry: Registry<TestGrant>
  readonly listener: TunnelListener<TestGrant>
  readonly endpoints = new Map<string, EndpointWish<TestGrant>>()
  readonly failures: unknown[] = []
  readonly sockets = new Set<Socket>()
  /** Those whose handshake is over, in order. */
  readonly secured: TLSSocket[] = []
  readonly ca: string
  attempts = 0
  readonly #server: Server
  readonly #setup: AgentServerSetup
  readonly #changes = new Set<() => void>()

  private constructor(setup: AgentServerSetup, { ca, cert, key }: AgentsIdentity) {
    this.#setup = setup
    this.ca = ca
    const changed = () => {
      for (const run of [...this.#changes]) run()
    }
    this.registry = new Registry<TestGrant>({
      sessionStarted: (session) => {
        setup.watch?.sessionStarted?.(session)
        changed()
      },
      sessionEnded: (session, why) => {
        setup.watch?.sessionEnded?.(session, why)
        changed()
      },
      tunnelStarted: changed,
      tunnelEnded: changed
    })
    this.listener = new TunnelListener<TestGrant>({
      authority: this,
      registry: this.registry,
      opener: this,
      secret: setup.secret ?? randomBytes(32),
      clock: setup.clock ?? systemClock,
      zone: ZONE,
      region: 'global',
      version: '0.0.0',
      limits: setup.limits ?? {},
      failed: (error) => this.failures.push(error)
    })
    this.#server = createServer({ cert, key, noDelay: true }, (socket) => {
      this.secured.push(socket)
      this.listener.accept(socket, { ip: socket.remoteAddress ?? '', serverName: undefined })
    })
    this.#server.on('connection', (socket: Socket) => {
      this.sockets.add(socket)
      socket.on('close', () => this.sockets.delete(socket))
    })
    // Broken handshakes are what some tests make.
    this.#server.on('tlsClientError', () => undefined)
  }

  static async start(t: Teardown, setup: AgentServerSetup = {}): Promise<AgentServer> {
    const server = new AgentServer(setup, setup.identity ?? (await identity))
    server.#server.listen(setup.port ?? 0, '127.0.0.1')
    await once(server.#server, 'listening')
    t.teardown(() => server.stop())
    return server
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port
  }

  get address(): string {
    return `localhost:${this.port}`
  }

  async stop(): Promise<void> {
    this.listener.close()
    const closed = this.#server.listening ? once(this.#server, 'close') : undefined
    this.#server.close()
    for (const socket of this.sockets) socket.destroy()
    await closed
  }

  /** Every connection breaks as if the machine had gone. */
  cut(): void {
    for (const socket of this.sockets) socket.resetAndDestroy()
  }

  /** Resolves when `done` holds; asked at each change of the registry. */
  async until(done: () => boolean): Promise<void> {
    if (done()) return
    await new Promise<void>((resolve) => {
      const check = () => {
        if (!done()) return
        this.#changes.delete(check)
        resolve()
      }
      this.#changes.add(check)
    })
  }

  tunnelIds(): string[] {
    return [...this.registry.tunnels()].map(({ id }) => id)
  }

  sessions(): RegisteredSession<TestGrant>[] {
    return [...this.registry.sessions()]
  }

  // --- TunnelAuthority ---

  async authenticate(token: string, facts: AgentFacts): Promise<TestGrant | BindDenied> {
    this.attempts++
    if (this.#setup.authenticate !== undefined) return this.#setup.authenticate(token, facts)
    const rules = this.#setup.tokens === undefined ? (token === TOKEN ? [] : undefined) : this.#setup.tokens[token]
    return rules === undefined
      ? { refused: 'this token is not known here' }
      : { credential: `cr_${token}`, account: 'tests', rules: new BindRules(rules) }
  }

  mayBindLabels({ rules }: TestGrant, labels: Readonly<Record<string, string>>): BindDenied | undefined {
    return rules.allowsLabels(labels) ? undefined : { refused: 'these labels are not allowed' }
  }

  mayBindDomain({ rules }: TestGrant, host: string): BindDenied | undefined {
    return rules.allowsDomain(host) ? undefined : { refused: `${host} is not allowed` }
  }

  mayBindAddress({ rules }: TestGrant, address: string | undefined): BindDenied | undefined {
    return rules.allowsAddress(address) ? undefined : { refused: `${address ?? 'any port'} is not allowed` }
  }

  // --- EndpointOpener ---

  async open(wish: EndpointWish<TestGrant>): Promise<OpenEndpoint | BindDenied> {
    if (wish.proto !== 'tcp') {
      const url = `${wish.proto}://${wish.host}`
      if (!this.endpoints.has(url)) this.endpoints.set(url, wish)
      const close = () => void (this.endpoints.get(url) === wish && this.endpoints.delete(url))
      return { url, shares: () => undefined, close }
    }
    const server = createTcpServer({ allowHalfOpen: true }, (socket) => {
      void open(wish.dialer).then(({ duplex }) => {
        pipeline(socket, duplex, () => undefined)
        pipeline(duplex, socket, () => undefined)
      })
    })
    server.listen(wish.port ?? 0, '127.0.0.1')
    try {
      await once(server, 'listening')
    } catch {
      // A port in use is what the agent is told.
      return { refused: `port ${wish.port} is taken` }
    }
    const url = `tcp://127.0.0.1:${(server.address() as AddressInfo).port}`
    this.endpoints.set(url, wish)
    const close = () => {
      this.endpoints.delete(url)
      server.close()
    }
    return { url, shares: () => undefined, close }
  }
}

const CLIENT = {
  peer: { address: '203.0.113.9', port: 51_234 },
  local: { address: '203.0.113.1', port: 443 }
} as ConnectionFacts

/** A byte pipe of a dialer, for a visitor at 203.0.113.9. */
export function open(dialer: Dialer, signal = new AbortList()): Promise<BytePipe> {
  return dialer.open({ client: CLIENT, deadline: 0, signal })
}

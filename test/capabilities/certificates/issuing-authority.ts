import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import 'reflect-metadata'
import * as library from '@peculiar/x509'
import type { Clock } from '../../../src/lib/clock.js'
import { makeAuthority, readSigningKey } from '../../../src/lib/self-signed.js'

interface Test {
  teardown(run: () => Promise<void> | void): void
}

/** What the authority answers to a question about a renewal; a test changes it as it goes. */
export interface Renewals {
  status: number
  headers: Record<string, string>
  content: unknown
  /** A directory without renewal information has none. */
  offered: boolean
  /** Kind of the problem that an order with `replaces` gets; undefined: it is accepted. */
  refusesReplaces: string | undefined
  /** Kind of the problem that every order gets; undefined: it is accepted. */
  refusesOrders: string | undefined
}

/** Requests that an endpoint takes: so many at once, and so many in a second after them, by the clock of the test. */
export interface Allowance {
  readonly burst: number
  readonly perSecond: number
}

/** How strict the authority is. */
export interface Strictness {
  /** By the first segment of the path. */
  readonly limits?: Readonly<Record<string, Allowance>>
  /** The proof of a name (RFC 8555 8.3), which it asks for before it issues. @default it asks for none */
  readonly proof?: (host: string, path: string) => Uint8Array | undefined | Promise<Uint8Array | undefined>
  /** The only challenge that it offers. @default http-01 */
  readonly type?: 'http-01' | 'tls-alpn-01'
  /** Seconds of Retry-After for an order of these names, which it refuses; undefined: it takes the order. */
  readonly refuses?: (names: readonly string[]) => number | undefined
  /** The answer to a request that was done gets lost. */
  readonly loses?: (path: string) => boolean
}

class Limit {
  #tokens: number
  #at: number

  constructor(
    readonly allowance: Allowance,
    readonly clock: Pick<Clock, 'monotonic'>
  ) {
    this.#tokens = allowance.burst
    this.#at = clock.monotonic()
  }

  take(): boolean {
    const { burst, perSecond } = this.allowance
    const now = this.clock.monotonic()
    this.#tokens = Math.min(burst, this.#tokens + ((now - this.#at) / 1_000) * perSecond)
    this.#at = now
    // A little less than one: sums of fractions.
    if (this.#tokens < 0.999) return false
    this.#tokens--
    return true
  }
}

const TOKEN = 'the-token'
const ECDSA = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' }

/**
 * An authority that proves nothing and issues at once, by the clock of the test, certificates of `life` milliseconds, and suggests when
 * to renew them as the test says (RFC 9773). It believes every signature. What `strict` says makes it ask for proofs, keep limits and check
 * that each nonce is its own and new.
 */
export async function startIssuingAuthority(t: Test, clock: Clock, life: number, strict?: Strictness) {
  const { cert, key } = await makeAuthority('CN=Test CA', { now: clock.wall(), life: 10 * 365 * 86_400_000 })
  const issuer = new library.X509Certificate(cert)
  const signingKey = await readSigningKey(key)
  const renewals: Renewals = {
    status: 200,
    headers: {},
    content: {},
    offered: true,
    refusesReplaces: undefined,
    refusesOrders: undefined
  }
  /** What orders said, and which certificates were asked about. */
  const orders: { replaces?: string; identifiers: { value: string }[] }[] = []
  const asked: string[] = []
  const chains: string[] = []
  /** Orders whose names are proved. */
  const proved = new Set<number>()
  const nonces = new Set<string>()
  const limits = new Map(Object.entries(strict?.limits ?? {}).map(([name, one]) => [name, new Limit(one, clock)]))
  /** Requests by the first segment of their path, and those that were refused. */
  const counts = { requests: new Map<string, number>(), limited: 0, badNonces: 0 }
  let base = ''
  const isProved = (index: number) => strict?.proof === undefined || proved.has(index)
  const order = (index: number) => ({
    status: chains[index] !== undefined ? 'valid' : isProved(index) ? 'ready' : 'pending',
    identifiers: orders[index]?.identifiers,
    authorizations: strict?.proof === undefined ? [] : [`${base}/authorization/${index}`],
    finalize: `${base}/finalize/${index}`,
    certificate: `${base}/certificate/${index}`
  })
  const issue = async (csr: string) => {
    const request = new library.Pkcs10CertificateRequest(Buffer.from(csr, 'base64url'))
    const names = request.extensions.find((one) => one instanceof library.SubjectAlternativeNameExtension)
    const issued = await library.X509CertificateGenerator.create({
      serialNumber: Buffer.from([0x7f, chains.length]).toString('hex'),
      subject: request.subject,
      issuer: issuer.subject,
      notBefore: new Date(clock.wall()),
      notAfter: new Date(clock.wall() + life),
      publicKey: request.publicKey,
      signingKey,
      signingAlgorithm: ECDSA,
      extensions: [
        await library.AuthorityKeyIdentifierExtension.create(issuer),
        ...(names === undefined ? [] : [names])
      ]
    })
    return `${issued.toString('pem')}\n${cert}`
  }
  const answer = async (path: string, payload: Record<string, unknown>): Promise<readonly [number, unknown]> => {
    const [, what, name = ''] = path.split('/')
    switch (what) {
      case 'directory': {
        const entries = { newNonce: `${base}/nonce`, newAccount: `${base}/account`, newOrder: `${base}/orders` }
        return [200, renewals.offered ? { ...entries, renewalInfo: `${base}/renewal-info` } : entries]
      }
      case 'nonce':
        return [200, {}]
      case 'account':
        return [201, { status: 'valid' }]
      case 'orders': {
        if (renewals.refusesOrders !== undefined)
          return [403, { type: `urn:ietf:params:acme:error:${renewals.refusesOrders}` }]
        const names = (payload as (typeof orders)[number]).identifiers.map(({ value }) => value)
        const seconds = strict?.refuses?.(names)
        if (seconds !== undefined) return [429, { type: 'urn:ietf:params:acme:error:rateLimited', seconds }]
        orders.push(payload as (typeof orders)[number])
        if (payload.replaces === undefined || renewals.refusesReplaces === undefined)
          return [201, order(orders.length - 1)]
        return [409, { type: `urn:ietf:params:acme:error:${renewals.refusesReplaces}` }]
      }
      case 'order':
        return [200, order(Number(name))]
      case 'authorization': {
        const [identifier] = orders[Number(name)]?.identifiers ?? []
        const status = isProved(Number(name)) ? 'valid' : 'pending'
        const challenges = [{ type: strict?.type ?? 'http-01', url: `${base}/challenge/${name}`, token: TOKEN, status }]
        return [200, { status, identifier: { type: 'dns', ...identifier }, challenges }]
      }
      case 'challenge': {
        const host = orders[Number(name)]?.identifiers[0]?.value ?? ''
        if ((await strict?.proof?.(host, `/.well-known/acme-challenge/${TOKEN}`)) !== undefined)
          proved.add(Number(name))
        return [
          200,
          { type: strict?.type ?? 'http-01', url: `${base}/challenge/${name}`, token: TOKEN, status: 'valid' }
        ]
      }
      case 'finalize':
        chains[Number(name)] = await issue(String(payload.csr))
        return [200, order(Number(name))]
      case 'certificate':
        return [200, chains[Number(name)]]
      case 'renewal-info':
        asked.push(name)
        return [renewals.status, renewals.content]
      default:
        return [404, {}]
    }
  }
  /** The answer, unless a limit or the nonce of the request forbids it. */
  const judged = async (what: string, text: string, run: () => Promise<readonly [number, unknown]>) => {
    if (limits.get(what)?.take() === false) {
      counts.limited++
      return [429, { type: 'urn:ietf:params:acme:error:rateLimited' }] as const
    }
    if (strict !== undefined && text !== '' && !nonces.delete(nonceOf(text))) {
      counts.badNonces++
      return [400, { type: 'urn:ietf:params:acme:error:badNonce' }] as const
    }
    return await run()
  }
  const respond = async (request: IncomingMessage, response: ServerResponse) => {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk as Buffer)
    const path = request.url ?? ''
    const [, what = ''] = path.split('/')
    counts.requests.set(what, (counts.requests.get(what) ?? 0) + 1)
    const text = Buffer.concat(chunks).toString()
    const nonce = Buffer.from(`${Math.random()}`).toString('base64url')
    const [status, body] = await judged(what, text, () => answer(path, payloadOf(text)))
    if (status !== 429) nonces.add(nonce)
    if (status < 300 && strict?.loses?.(path)) return void request.socket.destroy()
    const { seconds } = (body ?? {}) as { seconds?: number }
    const headers = {
      'content-type': typeof body === 'string' ? 'application/pem-certificate-chain' : 'application/json',
      ...(status === 429 ? {} : { 'replay-nonce': nonce }),
      ...(seconds === undefined ? {} : { 'retry-after': String(seconds) }),
      location: path === '/account' ? `${base}/account/1` : `${base}/order/${orders.length - 1}`,
      ...(path.startsWith('/renewal-info/') ? renewals.headers : {})
    }
    response.writeHead(status, headers).end(typeof body === 'string' ? body : JSON.stringify(body))
  }
  const server = createServer((request, response) => void respond(request, response))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  base = `http://127.0.0.1:${(server.address() as { port: number }).port}`
  const authority = { directory: `${base}/directory`, email: undefined, externalAccount: undefined }
  return { authority, renewals, orders, asked, counts, forgetNonces: () => nonces.clear() }
}

function nonceOf(text: string): string {
  const { protected: header } = JSON.parse(text) as { protected: string }
  return (JSON.parse(Buffer.from(header, 'base64url').toString()) as { nonce: string }).nonce
}

/** Of a flattened JWS (RFC 7515 7.2.2); an empty payload reads what is there. */
function payloadOf(text: string): Record<string, unknown> {
  const { payload = '' } = (text === '' ? {} : JSON.parse(text)) as { payload?: string }
  return payload === '' ? {} : (JSON.parse(Buffer.from(payload, 'base64url').toString()) as Record<string, unknown>)
}

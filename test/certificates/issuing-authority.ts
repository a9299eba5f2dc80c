import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import 'reflect-metadata'
import * as library from '@peculiar/x509'
import type { Clock } from '../../src/lib/clock.js'
import { makeAuthority, readSigningKey } from '../../src/lib/self-signed.js'

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

const ECDSA = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' }

/**
 * An authority that proves nothing and issues at once, by the clock of the test, certificates of `life` milliseconds, and suggests when
 * to renew them as the test says (RFC 9773). It believes every signature.
 */
export async function startIssuingAuthority(t: Test, clock: Pick<Clock, 'wall'>, life: number) {
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
  let base = ''
  const order = (index: number) => ({
    status: chains[index] === undefined ? 'ready' : 'valid',
    identifiers: orders[index]?.identifiers,
    authorizations: [],
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
        orders.push(payload as (typeof orders)[number])
        if (payload.replaces === undefined || renewals.refusesReplaces === undefined)
          return [201, order(orders.length - 1)]
        return [409, { type: `urn:ietf:params:acme:error:${renewals.refusesReplaces}` }]
      }
      case 'order':
        return [200, order(Number(name))]
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
  const respond = async (request: IncomingMessage, response: ServerResponse) => {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk as Buffer)
    const path = request.url ?? ''
    const [status, body] = await answer(path, payloadOf(Buffer.concat(chunks).toString()))
    const headers = {
      'content-type': typeof body === 'string' ? 'application/pem-certificate-chain' : 'application/json',
      'replay-nonce': Buffer.from(`${Math.random()}`).toString('base64url'),
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
  return { authority, renewals, orders, asked }
}

/** Of a flattened JWS (RFC 7515 7.2.2); an empty payload reads what is there. */
function payloadOf(text: string): Record<string, unknown> {
  const { payload = '' } = (text === '' ? {} : JSON.parse(text)) as { payload?: string }
  return payload === '' ? {} : (JSON.parse(Buffer.from(payload, 'base64url').toString()) as Record<string, unknown>)
}

import { createSecretKey, generateKeyPairSync, type KeyObject, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { CompactSign } from 'jose'

/** The issuer of all tokens of the tests. */
export const ISSUER = 'https://issuer.test/'
export const AUDIENCE = 'https://api.test'

export interface Signer {
  readonly alg: string
  readonly kid: string | undefined
  readonly privateKey: KeyObject
  readonly publicKey: KeyObject
}

/** A new key of its own for an algorithm. */
export function signer(alg: string, kid?: string): Signer {
  const pair = alg.startsWith('HS') ? secretOf(alg) : pairOf(alg)
  return { alg, kid, ...pair }
}

function secretOf(alg: string): { privateKey: KeyObject; publicKey: KeyObject } {
  const key = createSecretKey(randomBytes(Number(alg.slice(2)) / 8))
  return { privateKey: key, publicKey: key }
}

function pairOf(alg: string): { privateKey: KeyObject; publicKey: KeyObject } {
  if (alg === 'EdDSA' || alg === 'Ed25519') return generateKeyPairSync('ed25519')
  const curve = { ES256: 'P-256', ES384: 'P-384', ES512: 'P-521' }[alg]
  return curve === undefined
    ? generateKeyPairSync('rsa', { modulusLength: 2048 })
    : generateKeyPairSync('ec', { namedCurve: curve })
}

/** The public key as a JSON Web Key. */
export function jwkOf({ alg, kid, publicKey }: Signer): Record<string, unknown> {
  return { ...publicKey.export({ format: 'jwk' }), alg, use: 'sig', ...(kid === undefined ? {} : { kid }) }
}

/** A signed token; claims and header are added to what is usual. `now`: milliseconds. */
export function sign(
  { alg, kid, privateKey }: Signer,
  { claims = {}, header = {}, now = Date.now() }: { claims?: object; header?: object; now?: number } = {}
): Promise<string> {
  const seconds = Math.floor(now / 1_000)
  const payload = { iss: ISSUER, aud: AUDIENCE, sub: 'user-1', iat: seconds, exp: seconds + 300, ...claims }
  return signText({ alg, kid, privateKey }, JSON.stringify(payload), header)
}

/** Signs a payload as it stands. */
export function signText(
  { alg, kid, privateKey }: Omit<Signer, 'publicKey'>,
  payload: string,
  header: object = {}
): Promise<string> {
  return new CompactSign(Buffer.from(payload))
    .setProtectedHeader({ alg, ...(kid === undefined ? {} : { kid }), ...header })
    .sign(privateKey)
}

interface Test {
  teardown(run: () => void): void
}

/** A server of key sets, which counts its requests and whose answer a test changes. */
export interface KeyServer {
  readonly url: string
  requests: number
  answer: RequestListener
  /** Serves the public keys of these signers from now on. */
  serve(...signers: Signer[]): void
}

export async function keyServer(t: Test, ...signers: Signer[]): Promise<KeyServer> {
  const http = createServer((request, response) => {
    server.requests++
    server.answer(request, response)
  }).listen(0, '127.0.0.1')
  await once(http, 'listening')
  t.teardown(() => {
    http.close()
    http.closeAllConnections()
  })
  const server: KeyServer = {
    url: `http://127.0.0.1:${(http.address() as AddressInfo).port}/jwks.json`,
    requests: 0,
    answer: () => undefined,
    serve(...served) {
      server.answer = (_, response) => {
        response.setHeader('content-type', 'application/json')
        response.end(JSON.stringify({ keys: served.map(jwkOf) }))
      }
    }
  }
  server.serve(...signers)
  return server
}

/** A config of `jwt-validation` that takes one token from Authorization. */
export function configFor(
  sources: object,
  { algorithms = ['RS256'], ...more }: { readonly algorithms?: string[]; readonly [field: string]: unknown } = {}
) {
  return {
    issuer: { allow_list: [{ value: ISSUER }] },
    audience: { allow_list: [{ value: 'https://other.test' }, { value: AUDIENCE }] },
    http: { tokens: [{ type: 'jwt', method: 'header', name: 'Authorization', prefix: 'Bearer ' }] },
    jws: { allowed_algorithms: algorithms, keys: { sources } },
    ...more
  }
}

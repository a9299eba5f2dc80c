import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'

interface Test {
  teardown(run: () => Promise<void> | void): void
}

/** Where the authority puts the reason of a validation that failed: a kind of problem in each place, or none. */
export interface Reasons {
  readonly challenge?: string | undefined
  readonly order?: string | undefined
  /** The authorizations of an order that failed cannot be read. */
  readonly unreadable?: boolean
  /** The challenge that it offers. @default 'http-01' */
  readonly type?: string
  /** Fetches the proof, as an authority does before it decides. */
  readonly looks?: (host: string, path: string) => Promise<void>
}

/**
 * An authority that refuses every name as soon as it is asked to look, and says why where a test wants it. It believes
 * every signature. Its nonces come with the type of JSON and without content.
 */
export async function startRefusingAuthority(t: Test, reasons: Reasons) {
  let base = ''
  let looked = false
  let names: readonly string[] = []
  let orders = 0
  const problem = (kind: string | undefined) =>
    kind === undefined ? {} : { error: { type: `urn:ietf:params:acme:error:${kind}`, detail: `because of ${kind}` } }
  const status = () => (looked ? 'invalid' : 'pending')
  const order = () => ({
    status: status(),
    identifiers: names.map((value) => ({ type: 'dns', value })),
    authorizations: names.map((_, index) => `${base}/authorization/${index}`),
    finalize: `${base}/finalize`,
    ...(looked ? problem(reasons.order) : {})
  })
  const challenge = (index: number) => ({
    type: reasons.type ?? 'http-01',
    url: `${base}/challenge/${index}`,
    token: `token-${index}`,
    status: status(),
    ...(looked ? problem(reasons.challenge) : {})
  })
  const authorization = (index: number) => ({
    status: status(),
    // A wildcard is proved by the name below its star (RFC 8555 7.1.3).
    identifier: { type: 'dns', value: names[index]?.replace(/^\*\./, '') },
    ...(names[index]?.startsWith('*.') === true ? { wildcard: true } : {}),
    challenges: [challenge(index)]
  })
  const answer = (path: string, payload: { identifiers?: { value: string }[] }): readonly [number, object] => {
    const [, what, index] = path.split('/')
    switch (what) {
      case 'directory':
        return [200, { newNonce: `${base}/nonce`, newAccount: `${base}/account`, newOrder: `${base}/orders` }]
      case 'account':
        return [201, { status: 'valid' }]
      case 'orders':
        orders++
        looked = false
        names = (payload.identifiers ?? []).map(({ value }) => value)
        return [201, order()]
      case 'order':
        return [200, order()]
      case 'authorization':
        if (looked && reasons.unreadable === true) return [500, {}]
        return [200, authorization(Number(index))]
      case 'challenge':
        looked = true
        return [200, challenge(Number(index))]
      default:
        return [404, {}]
    }
  }
  const respond = async (request: IncomingMessage, response: ServerResponse) => {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk as Buffer)
    const path = request.url ?? ''
    const headers = {
      'content-type': 'application/json',
      'replay-nonce': Buffer.from(`${Math.random()}`).toString('base64url'),
      location: path === '/account' ? `${base}/account/1` : `${base}/order/1`
    }
    if (path === '/nonce') return void response.writeHead(200, headers).end()
    const [, asked, index] = path.split('/')
    if (asked === 'challenge')
      await reasons.looks?.(names[Number(index)] ?? '', `/.well-known/acme-challenge/token-${index}`)
    const [code, body] = answer(path, payloadOf(Buffer.concat(chunks).toString()))
    response.writeHead(code, headers).end(JSON.stringify(body))
  }
  const server = createServer((request, response) => void respond(request, response))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  base = `http://127.0.0.1:${(server.address() as { port: number }).port}`
  return { directory: `${base}/directory`, email: undefined, externalAccount: undefined, orders: () => orders }
}

/** Of a flattened JWS (RFC 7515 7.2.2); an empty payload reads what is there. */
function payloadOf(text: string): object {
  const { payload = '' } = (text === '' ? {} : JSON.parse(text)) as { payload?: string }
  return payload === '' ? {} : (JSON.parse(Buffer.from(payload, 'base64url').toString()) as object)
}

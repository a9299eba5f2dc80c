import { createHash, generateKeyPairSync, type KeyObject, randomBytes } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { exportJWK, SignJWT } from 'jose'
import { serveProvider, type Test } from './provider-server.js'

interface Grant {
  readonly challenge: string | null
  readonly redirect: string
  readonly nonce: string | null
}

export const CLIENT = { id: 'sluice-client', secret: 'sluice secret/+%' }

/** A provider that a test scripts: OpenID Connect, and the API of GitHub. It checks what it is asked, as real ones do. */
export class FakeProvider {
  url = ''
  user: Record<string, unknown> = { sub: 'u1', name: 'Ann', email: 'ann@example.com', email_verified: true }
  emails: unknown[] = [
    { email: 'ann@private.test', verified: false, primary: false },
    { email: 'Ann@Example.com', verified: true, primary: true }
  ]
  teams: unknown[] = []
  organizations: unknown[] = []
  /** Answers of these paths are replaced. */
  readonly broken = new Map<string, (response: ServerResponse) => void>()
  /** Paths that were asked for, without their query. */
  readonly asked: string[] = []
  /** Queries of the authorization endpoint. */
  readonly authorizations: URLSearchParams[] = []
  /** What a test found wrong with requests. */
  readonly faults: string[] = []
  refreshTokens = false
  accessTokenLasts = 3600
  /** Tokens that are worth nothing any more. */
  readonly revoked = new Set<string>()
  /** Is every token worthless? */
  gone = false
  /** Like LinkedIn: no nonce in identity tokens, and the secret only in the body. */
  plain = false
  /** Path by which it names itself in callbacks (RFC 9207); '' when it does not. */
  names = ''
  /** Does it have an end_session_endpoint? `ends`: its queries. */
  endsSessions = false
  readonly ends: URLSearchParams[] = []
  /** Bytes that are added to each access token. */
  padding = 0
  /** Claims of identity tokens beside those of the protocol. */
  claims: Record<string, unknown> = {}
  /** Refresh tokens that came a second time: all tokens are worth nothing then, as rotation wants it (RFC 9700 4.14.2). */
  reused = 0
  /** Resolves before each refresh is answered. */
  refreshing: () => Promise<void> = async () => undefined
  #key = newKey()
  #published = this.#key
  readonly #grants = new Map<string, Grant>()
  readonly #refresh = new Set<string>()
  readonly #access = new Set<string>()

  async start(t: Test): Promise<this> {
    this.url = await serveProvider(t, (request, response) => {
      this.#serve(request, response).catch((error: unknown) => {
        this.faults.push(String(error))
        response.destroy()
      })
    })
    return this
  }

  get kid(): string {
    return this.#key.kid
  }

  count(path: string): number {
    return this.asked.filter((asked) => asked === path).length
  }

  /** Signs with another key from now on, and publishes it unless told otherwise; `kid`: what it is called. */
  rotate(publish = true, kid?: string): void {
    this.#key = kid === undefined ? newKey() : { ...newKey(), kid }
    if (publish) this.#published = this.#key
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url ?? '/', this.url)
    const path = url.pathname
    this.asked.push(path)
    const broken = this.broken.get(path)
    if (broken !== undefined) return broken(response)
    if (path === '/.well-known/openid-configuration') return json(response, 200, this.#metadata())
    if (path === '/jwks') return json(response, 200, { keys: [await this.#jwk()] })
    if (path === '/authorize') return this.#authorize(url, response)
    if (path === '/end') {
      this.ends.push(url.searchParams)
      const back = new URL(url.searchParams.get('post_logout_redirect_uri') ?? '')
      const state = url.searchParams.get('state')
      if (state !== null) back.searchParams.set('state', state)
      return void response.writeHead(302, { location: back.href }).end()
    }
    if (path === '/token') return this.#token(request, response, await bodyOf(request))
    if (!this.#known(request)) return json(response, 401, { message: 'Bad credentials' })
    const pages: Record<string, unknown> = {
      '/userinfo': this.user,
      '/user': this.user,
      '/user/profile': this.user,
      '/me': this.user,
      '/users': { data: [this.user] },
      '/user/emails': this.emails,
      '/user/teams': paged(this.teams, url),
      '/user/orgs': paged(this.organizations, url)
    }
    return pages[path] === undefined ? json(response, 404, {}) : json(response, 200, pages[path])
  }

  #metadata() {
    return {
      issuer: this.url,
      authorization_endpoint: `${this.url}/authorize`,
      token_endpoint: `${this.url}/token`,
      userinfo_endpoint: `${this.url}/userinfo`,
      jwks_uri: `${this.url}/jwks`,
      ...(this.endsSessions ? { end_session_endpoint: `${this.url}/end` } : {}),
      response_types_supported: ['code'],
      subject_types_supported: ['public'],
      id_token_signing_alg_values_supported: ['ES256']
    }
  }

  async #jwk() {
    return { ...(await exportJWK(this.#published.publicKey)), kid: this.#published.kid, alg: 'ES256', use: 'sig' }
  }

  #authorize(url: URL, response: ServerResponse): void {
    const query = url.searchParams
    this.authorizations.push(query)
    const code = randomBytes(8).toString('hex')
    const redirect = query.get('redirect_uri') ?? ''
    this.#grants.set(code, { redirect, challenge: query.get('code_challenge'), nonce: query.get('nonce') })
    const back = new URL(redirect)
    back.searchParams.set('code', code)
    back.searchParams.set('state', query.get('state') ?? '')
    if (this.names !== '') back.searchParams.set('iss', this.url + this.names)
    response.writeHead(302, { location: back.href }).end()
  }

  async #token(request: IncomingMessage, response: ServerResponse, text: string): Promise<void> {
    const body = new URLSearchParams(text)
    if (this.plain && request.headers.authorization !== undefined)
      return json(response, 401, { error: 'invalid_client' })
    if (!authenticated(request, body)) return json(response, 401, { error: 'invalid_client' })
    if (body.get('grant_type') === 'refresh_token') {
      const token = body.get('refresh_token') ?? ''
      if (this.gone || !this.#refresh.delete(token)) {
        this.reused++
        this.#refresh.clear()
        return json(response, 400, { error: 'invalid_grant' })
      }
      await this.refreshing()
      return json(response, 200, await this.#tokens(null))
    }
    const code = body.get('code') ?? ''
    const grant = this.#grants.get(code)
    this.#grants.delete(code)
    if (grant === undefined) return json(response, 400, { error: 'invalid_grant' })
    const proof = createHash('sha256')
      .update(body.get('code_verifier') ?? '')
      .digest('base64url')
    if (grant.challenge === null && body.has('code_verifier')) return json(response, 400, { error: 'invalid_request' })
    if (grant.challenge !== null && grant.challenge !== proof)
      return json(response, 400, { error: 'invalid_grant', error_description: 'PKCE' })
    if (grant.redirect !== body.get('redirect_uri')) return json(response, 400, { error: 'invalid_grant' })
    return json(response, 200, await this.#tokens(grant.nonce))
  }

  /** A token of the key that it signs with; `claims` and `header` replace or (undefined) remove what a logout token has. */
  async logoutToken(claims: Record<string, unknown> = {}, header: Record<string, unknown> = {}): Promise<string> {
    const now = Math.floor(Date.now() / 1_000)
    const usual = { iss: this.url, aud: CLIENT.id, iat: now, exp: now + 120, jti: randomBytes(8).toString('hex') }
    const events = { 'http://schemas.openid.net/event/backchannel-logout': {} }
    return await new SignJWT({ ...usual, events, sub: String(this.user.sub), ...claims })
      .setProtectedHeader({ alg: 'ES256', kid: this.#key.kid, typ: 'logout+jwt', ...header })
      .sign(this.#key.privateKey)
  }

  async #tokens(nonce: string | null) {
    const token = `${randomBytes(12).toString('hex')}${'x'.repeat(this.padding)}`
    this.#access.add(token)
    const refresh = randomBytes(12).toString('hex')
    if (this.refreshTokens) this.#refresh.add(refresh)
    const identity = await new SignJWT({ ...this.claims, ...(nonce === null || this.plain ? {} : { nonce }) })
      .setProtectedHeader({ alg: 'ES256', kid: this.#key.kid })
      .setIssuer(this.url)
      .setAudience(CLIENT.id)
      .setSubject(String(this.user.sub ?? this.user.id))
      .setIssuedAt()
      .setExpirationTime('1h')
      .sign(this.#key.privateKey)
    return {
      access_token: token,
      token_type: 'bearer',
      expires_in: this.accessTokenLasts,
      ...(this.refreshTokens ? { refresh_token: refresh } : {}),
      ...(nonce === null && !this.plain ? {} : { id_token: identity })
    }
  }

  #known({ headers }: IncomingMessage): boolean {
    const [scheme, token = ''] = (headers.authorization ?? '').split(' ')
    return scheme?.toLowerCase() === 'bearer' && !this.gone && this.#access.has(token) && !this.revoked.has(token)
  }
}

function authenticated({ headers }: IncomingMessage, body: URLSearchParams): boolean {
  const [scheme, basic = ''] = (headers.authorization ?? '').split(' ')
  if (scheme !== 'Basic') return body.get('client_id') === CLIENT.id && body.get('client_secret') === CLIENT.secret
  const given = Buffer.from(basic, 'base64').toString().split(':')
  const [id, secret] = given.map((part) => decodeURIComponent(part.replaceAll('+', ' ')))
  return id === CLIENT.id && secret === CLIENT.secret
}

function newKey(): { privateKey: KeyObject; publicKey: KeyObject; kid: string } {
  return { ...generateKeyPairSync('ec', { namedCurve: 'P-256' }), kid: randomBytes(4).toString('hex') }
}

function json(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
}

function paged(list: unknown[], url: URL): unknown[] {
  const size = Number(url.searchParams.get('per_page') ?? 30)
  const page = Number(url.searchParams.get('page') ?? 1)
  return list.slice((page - 1) * size, page * size)
}

async function bodyOf(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(chunk as Buffer)
  return Buffer.concat(chunks).toString()
}

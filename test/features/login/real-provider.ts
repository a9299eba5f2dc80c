import Provider, { type Configuration } from 'oidc-provider'
import type { Browser } from './browser.js'
import { CLIENT } from './fake-provider.js'
import { serveProvider, type Test } from './provider-server.js'

/** A certified OpenID Connect provider in this process, with its own login pages. Users are whoever they say, at example.com unless they say where. */
export class RealProvider {
  url = ''
  /** Users whom it does not know any more. */
  readonly gone = new Set<string>()
  /** What it says about the address of a user. */
  verified: (id: string) => { email_verified?: boolean } = () => ({ email_verified: true })
  /** Seconds that access tokens last; each refresh gives another refresh token, and a spent one ends the grant. */
  accessTokenLasts = 3_600
  /** Refreshes that it has granted, and grants that it has taken back. */
  readonly counts = { refreshed: 0, revoked: 0 }
  #serve: ReturnType<Provider['callback']> | undefined

  async start(t: Test): Promise<this> {
    this.url = await serveProvider(t, (request, response) => {
      if (this.#serve === undefined) response.writeHead(503).end()
      else void this.#serve(request, response)
    })
    return this
  }

  /** Registers the application and begins to serve. */
  register(redirectUri: string): void {
    const configuration: Configuration = {
      clients: [
        {
          client_id: CLIENT.id,
          client_secret: CLIENT.secret,
          redirect_uris: [redirectUri],
          post_logout_redirect_uris: [redirectUri.replace('callback', 'logout')],
          backchannel_logout_uri: redirectUri.replace('callback', 'backchannel-logout'),
          backchannel_logout_session_required: true,
          grant_types: ['authorization_code', 'refresh_token']
        }
      ],
      claims: {
        openid: ['sub'],
        email: ['email', 'email_verified'],
        profile: ['name'],
        [GOOGLE('email')]: ['email', 'email_verified'],
        [GOOGLE('profile')]: ['name']
      },
      features: { backchannelLogout: { enabled: true } },
      // Its own guard refuses addresses of this machine.
      fetch: (url, { dispatcher: _, ...options }) => fetch(url, options),
      scopes: ['openid', 'email', 'profile', GOOGLE('email'), GOOGLE('profile')],
      cookies: { keys: ['a key of the test'] },
      issueRefreshToken: async () => true,
      rotateRefreshToken: true,
      ttl: { AccessToken: () => this.accessTokenLasts },
      findAccount: (_context, id) =>
        this.gone.has(id)
          ? undefined
          : {
              accountId: id,
              claims: () => ({
                sub: id,
                email: id.includes('@') ? id : `${id}@example.com`,
                ...this.verified(id),
                name: id.toUpperCase()
              })
            }
    }
    const provider = new Provider(this.url, configuration)
    provider.on('grant.success', ({ oidc }) => {
      if (oidc.params?.grant_type === 'refresh_token') this.counts.refreshed++
    })
    provider.on('grant.revoked', () => this.counts.revoked++)
    this.#serve = provider.callback()
  }
}

const GOOGLE = (what: string) => `https://www.googleapis.com/auth/userinfo.${what}`

/** Goes to `url` and logs in on the pages of the provider as `user`; answers the page where that ends. */
export async function logIn(browser: Browser, url: string, user: string) {
  let page = await browser.visit(url)
  for (let forms = 0; page.body.includes('name="prompt"') && forms < 3; forms++) {
    const login = page.body.includes('name="login"')
    page = await browser.submit(page, login ? { login: user, password: 'any' } : {})
  }
  return page
}

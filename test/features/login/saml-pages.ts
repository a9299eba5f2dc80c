import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Test } from 'tap'
import { overNetwork } from './browser.js'
import { type Said, SamlIdp } from './saml-provider.js'

/** An identity provider of SAML with pages: its metadata, and a login that knows everybody. */
export class SamlPages {
  readonly says: { -readonly [K in keyof Said]?: Said[K] } = {
    attributes: { groups: ['staff'], email: ['ann@example.com'] }
  }
  /** Paths that were asked for, without their query. */
  readonly asked: string[] = []
  /** URL of the metadata of the service provider. */
  entity = ''
  readonly #now: () => number

  private constructor(
    readonly address: string,
    readonly idp: SamlIdp,
    now: () => number
  ) {
    this.#now = now
  }

  static async start(t: Test, now: () => number): Promise<SamlPages> {
    let pages: SamlPages | undefined
    const server = createServer(({ url = '' }, response) => {
      pages?.page(url).then(
        (text) => response.end(text),
        (error) => response.writeHead(500).end(String(error))
      )
    }).listen(0, '127.0.0.1')
    await new Promise((listening) => server.once('listening', listening))
    t.teardown(() => server.close())
    const address = `http://idp.localhost:${(server.address() as AddressInfo).port}`
    pages = new SamlPages(address, await SamlIdp.make(`${address}/sso`), now)
    return pages
  }

  private async page(path: string): Promise<string> {
    this.asked.push(path.replace(/\?.*/, ''))
    if (path === '/metadata') return this.idp.metadata()
    const { body: metadata } = await overNetwork('GET', new URL(this.entity), {}, '')
    const said = { now: this.#now(), ...this.says }
    const { consumer, SAMLResponse, RelayState } = await this.idp.answers(`${this.address}${path}`, metadata, said)
    const fields = Object.entries({ SAMLResponse, RelayState })
    const inputs = fields.map(([name, value]) => `<input type="hidden" name="${name}" value="${value}">`)
    return `<form method="post" action="${consumer}">${inputs.join('')}</form>`
  }
}

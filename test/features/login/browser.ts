import { type Agent, request } from 'node:http'

export interface Answer {
  readonly status: number
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  readonly body: string
}

/** Something that answers requests for some hosts. */
export type Send = (
  method: string,
  url: URL,
  headers: Readonly<Record<string, string>>,
  body: string
) => Promise<Answer>

const NAVIGATES = {
  accept: 'text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8',
  'sec-fetch-mode': 'navigate',
  'sec-fetch-dest': 'document',
  'sec-fetch-site': 'none'
}

interface Kept {
  readonly value: string
  readonly attributes: readonly string[]
}

/** A browser as far as logins need one: cookies by host, redirects, forms. */
export class Browser {
  readonly #send: Send
  /** Cookies by host, as browsers keep them: ports do not matter. */
  readonly jars = new Map<string, Map<string, Kept>>()
  /** URLs that were visited, the last one last. */
  readonly trail: string[] = []

  constructor(send: Send) {
    this.#send = send
  }

  /** Cookies of a host by name. */
  cookies(host: string): Map<string, Kept> {
    const jar = this.jars.get(host) ?? new Map<string, Kept>()
    this.jars.set(host, jar)
    return jar
  }

  /** One request; its redirect is not followed. */
  async once(
    url: string,
    {
      method = 'GET',
      headers = NAVIGATES,
      body = '',
      from
    }: { method?: string; headers?: Record<string, string>; body?: string; from?: string } = {}
  ): Promise<Answer> {
    const target = new URL(url)
    const jar = this.cookies(target.hostname)
    // A form of another site brings no cookies that are Lax (RFC 6265bis 5.2).
    const isCross = from !== undefined && new URL(from).hostname !== target.hostname && method === 'POST'
    const sent = [...jar].filter(([, { attributes }]) => !isCross || !attributes.includes('SameSite=Lax'))
    const cookie = sent.map(([name, { value }]) => `${name}=${value}`).join('; ')
    this.trail.push(target.href)
    const answer = await this.#send(method, target, { ...headers, ...(cookie === '' ? {} : { cookie }) }, body)
    for (const line of [answer.headers['set-cookie'] ?? []].flat()) keep(jar, line)
    return answer
  }

  /** One request and every redirect after it. */
  async visit(url: string, options: Parameters<Browser['once']>[1] = {}): Promise<Answer & { readonly url: string }> {
    let answer = await this.once(url, options)
    let at = url
    for (let hops = 0; answer.status >= 300 && answer.status < 400; hops++) {
      if (hops > 20) throw new Error(`too many redirects: ${this.trail.slice(-6).join(' ')}`)
      at = new URL(String(answer.headers.location), at).href
      answer = await this.once(at)
    }
    return { ...answer, url: at }
  }

  /** Submits the form of a page. */
  submit(page: Answer & { readonly url: string }, fields: Readonly<Record<string, string>>) {
    const action = /<form[^>]*action="([^"]*)"/.exec(page.body)?.[1]
    if (action === undefined) throw new Error(`no form: ${page.status} ${page.body.slice(0, 400)}`)
    const hidden = [...page.body.matchAll(/<input type="hidden" name="([^"]*)" value="([^"]*)"/g)]
    const all = { ...Object.fromEntries(hidden.map(([, name, value]) => [name, value])), ...fields }
    return this.visit(new URL(action, page.url).href, {
      method: 'POST',
      from: page.url,
      headers: { ...NAVIGATES, 'content-type': 'application/x-www-form-urlencoded' },
      body: new URLSearchParams(all).toString()
    })
  }
}

function keep(jar: Map<string, Kept>, line: string): void {
  const [pair = '', ...attributes] = line.split(';').map((part) => part.trim())
  const [name, value] = [pair.slice(0, pair.indexOf('=')), pair.slice(pair.indexOf('=') + 1)]
  const ended = attributes.some((attribute) => /^max-age=0$/i.test(attribute) || /^expires=.*1970/i.test(attribute))
  if (ended) jar.delete(name)
  else jar.set(name, { value, attributes })
}

/** Sends over the network: `.localhost` and `.example.com` are this machine. */
export const overNetwork: Send = (...sent) => sendBy({}, ...sent)

/** Sends by the connections of `agent`, and to `port` in place of that of the URL, as a load balancer does. */
export function by(way: { readonly agent?: Agent; readonly port?: number }): Send {
  return (...sent) => sendBy(way, ...sent)
}

function sendBy(
  { agent, port }: { readonly agent?: Agent; readonly port?: number },
  ...[method, url, headers, body]: Parameters<Send>
): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const options = {
      host: '127.0.0.1',
      port: port ?? url.port,
      path: `${url.pathname}${url.search}`,
      method,
      headers: { ...headers, host: url.host, ...(body === '' ? {} : { 'content-length': Buffer.byteLength(body) }) },
      agent: agent ?? (false as const)
    }
    const sent = request(options, (response) => {
      const chunks: Buffer[] = []
      response.on('data', (chunk: Buffer) => chunks.push(chunk))
      response.on('error', reject)
      response.on('end', () =>
        resolve({ status: response.statusCode ?? 0, headers: response.headers, body: Buffer.concat(chunks).toString() })
      )
    })
    sent.on('error', reject)
    sent.end(body)
  })
}

import { existsSync, mkdtempSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Scenario } from './scenarios.js'

/** Module of Debian's `libnginx-mod-http-modsecurity`. */
export const MODSECURITY = '/usr/lib/nginx/modules/ngx_http_modsecurity_module.so'
/** Rules of Debian's `modsecurity-crs`, and their set-up file. */
const DEBIAN = { rules: '/usr/share/modsecurity-crs/rules', setup: '/etc/modsecurity/crs/crs-setup.conf' }

/** Returns a folder with the Core Rule Set: that of SLUICE_CRS, or Debian's; undefined if there is none. */
function findRules(): string | undefined {
  const named = process.env.SLUICE_CRS ?? ''
  if (named !== '') {
    if (existsSync(join(named, 'rules'))) return named
    throw new Error(`SLUICE_CRS: ${named} has no folder rules`)
  }
  if (!existsSync(DEBIAN.rules) || !existsSync(DEBIAN.setup)) return undefined
  const folder = mkdtempSync(join(tmpdir(), 'sluice-bench-crs-'))
  symlinkSync(DEBIAN.rules, join(folder, 'rules'))
  symlinkSync(DEBIAN.setup, join(folder, 'crs-setup.conf'))
  return folder
}

/** Returns the set-up file of a folder with rules. */
export function setupFile(rules: string): string {
  const file = join(rules, 'crs-setup.conf')
  return existsSync(file) ? file : `${file}.example`
}

/** Fields of a browser's request; the client adds `Host` and `Connection`. */
const FIELDS: Readonly<Record<string, string>> = {
  'User-Agent': 'Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0',
  Accept: 'text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8',
  'Accept-Language': 'en-US,en;q=0.5',
  'Accept-Encoding': 'gzip, deflate, br',
  Referer: 'https://shop.example.com/products?page=1',
  Cookie: 'session=8f14e45fceea167a5a36dedd4bea2543; theme=dark; consent=yes; cart=3',
  'Upgrade-Insecure-Requests': '1',
  'Sec-Fetch-Dest': 'document',
  'Sec-Fetch-Mode': 'navigate',
  'Sec-Fetch-Site': 'same-origin',
  'Sec-Fetch-User': '?1',
  DNT: '1',
  'Cache-Control': 'max-age=0'
}

const FORM = new URLSearchParams({
  name: 'Anna Schmidt',
  email: 'anna.schmidt@example.com',
  phone: '+49 30 901820',
  street: 'Hauptstrasse 12',
  city: 'Berlin',
  zip: '10115',
  country: 'DE',
  order: '100234',
  newsletter: 'yes',
  message: 'Hello, I would like to know when my order arrives. Thank you!'
}).toString()

/** Size of the JSON body (bytes). */
const JSON_BYTES = 4_096

function jsonBody(): string {
  const items: object[] = []
  const write = () => JSON.stringify({ items })
  while (write().length < JSON_BYTES - 100) {
    const number = items.length
    items.push({ id: number, name: `Item number ${number}`, price: 12.5, tags: ['new', 'blue'] })
  }
  return write()
}

const POLICY = `
on_http_request:
  - actions:
      - type: owasp-crs-request
        config: { process_body: true, body_limit: 8KiB }
`

/** Returns the scenarios of the web application firewall: none without rules. */
export function wafScenarios(): readonly Scenario[] {
  const rules = findRules()
  if (rules === undefined) return []
  const usual = { connections: 16, refused: false, accessLog: false, bulk: false, answer: 102, policy: POLICY, rules }
  const post = (type: string, body: string) => ({
    method: 'POST' as const,
    headers: { ...FIELDS, 'Content-Type': type },
    body
  })
  const scenario = (what: string, path: string, request: NonNullable<Scenario['request']>): Scenario => ({
    ...usual,
    name: 'waf',
    title: `web application firewall: ${what}`,
    path,
    request
  })
  const json = jsonBody()
  return [
    scenario('GET of a browser', '/products?page=2&sort=price&q=running+shoes', { method: 'GET', headers: FIELDS }),
    scenario('a form of 10 fields', '/contact', post('application/x-www-form-urlencoded', FORM)),
    scenario(`JSON of ${json.length} bytes`, '/api/items', post('application/json', json))
  ]
}

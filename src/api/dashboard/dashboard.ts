import { createHash } from 'node:crypto'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { pipeline, Readable } from 'node:stream'
import { createGzip } from 'node:zlib'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { packageRoot, shippedFile } from '../../lib/files.js'
import { queryOf } from '../calls.js'
import { pagePolicy, secured, sendShipped } from '../page-files.js'
import { type Router, route } from '../routes.js'

/** Below this path lies everything that the page loads. */
const BELOW = '/dashboard'

/** The pages are served unchanged. */
const PAGES = join(packageRoot(), 'src', 'api', 'dashboard', 'pages')

/** Installed packages and their files beside the package's main file, and the bundle of CodeMirror; their other files are not served. */
const LIBRARIES = [
  ['codemirror', 'codemirror.js'],
  ['preact', 'preact.module.js'],
  ['preact/hooks', 'hooks.module.js'],
  ['htm', 'htm.module.js'],
  ['uplot', 'uPlot.iife.min.js'],
  ['uplot', 'uPlot.min.css']
] as const

/** Files of the page of a capability. */
const PAGE_FILE = /^page(-[a-z-]+)?\.js$/

/** Returns the folder of a capability's page: that of its source, or the one to which the build copies it. */
function pageFolder(capability: string): string {
  const source = join(packageRoot(), 'src', 'capabilities', capability)
  return existsSync(join(source, 'page.js'))
    ? source
    : dirname(shippedFile(import.meta.url, `pages/${capability}`, 'page.js'))
}

/** Returns the module that lists the pages of capabilities for the browser. */
function pageList(pages: ReadonlyMap<string, CapabilityPage>): string {
  const entries = [...pages].map(([name, { path, title, after }]) => {
    const facts = JSON.stringify({ id: path, title, after }).slice(1, -1)
    return `  { ${facts}, "load": () => import('./${name}/page.js') }`
  })
  return `export const capabilityPages = [\n${entries.join(',\n')}\n]\n`
}

/** The one text within the page is its import map, known by its hash. */
function securityPolicy(page: string): string {
  const map = /<script type="importmap">([\s\S]*?)<\/script>/.exec(page)?.[1]
  if (map === undefined) throw new TypeError('the page has no import map')
  return pagePolicy(`'sha256-${createHash('sha256').update(map).digest('base64')}'`)
}

/** A page of a capability: `page.js` in its folder, and files `page-….js` beside it. */
export interface CapabilityPage {
  /** Path behind `#/`. */
  readonly path: string
  readonly title: string
  /** Path of the page of the kernel behind which the navigation lists it. Pages behind the same page keep the order of the registry. */
  readonly after: string
}

/** The dashboard at `/`. Its files need no key; the calls that it makes do. `pages`: those of capabilities, by the capability's name. */
export function addDashboard(router: Router, pages: ReadonlyMap<string, CapabilityPage>): void {
  const policy = securityPolicy(readFileSync(join(PAGES, 'index.html'), 'utf8'))
  const open = { open: true, entrance: 'dashboard' } as const
  const compressed = new Set<string>()
  const add = (path: string, file: string, maxAge: string | number) => {
    compressed.add(path)
    route(router, 'GET', path, open, async (request, reply) => {
      queryOf(request, [])
      return await sendShipped(request, secured(reply, policy), file, maxAge)
    })
  }
  add('/', join(PAGES, 'index.html'), 0)
  for (const name of readdirSync(PAGES)) {
    if (name !== 'index.html') add(`${BELOW}/${name}`, join(PAGES, name), 0)
  }
  for (const name of pages.keys()) {
    const folder = pageFolder(name)
    for (const file of readdirSync(folder)) {
      if (PAGE_FILE.test(file)) add(`${BELOW}/${name}/${file}`, join(folder, file), 0)
    }
  }
  const list = pageList(pages)
  route(router, 'GET', `${BELOW}/capability-pages.js`, open, async (request, reply) => {
    queryOf(request, [])
    const sent = secured(reply, policy).type('text/javascript; charset=utf-8').header('cache-control', 'no-cache')
    return sent.send(Readable.from([list]))
  })
  compressed.add(`${BELOW}/capability-pages.js`)
  for (const [library, name] of LIBRARIES) {
    add(`${BELOW}/lib/${name}`, shippedFile(import.meta.url, library, name), '1h')
  }
  router.server.addHook('onSend', async (request, reply, payload) =>
    compressed.has(request.url) ? compress(request, reply, payload) : payload
  )
}

/** Compresses the response on each request: the files are few and small, and browsers cache them. */
function compress(request: FastifyRequest, reply: FastifyReply, payload: unknown): unknown {
  reply.header('vary', 'accept-encoding')
  const accepted = /\bgzip\b(?!\s*;\s*q=0(?:\.0*)?(?:,|$))/.test(String(request.headers['accept-encoding'] ?? ''))
  if (!accepted || reply.statusCode !== 200 || request.method === 'HEAD' || !(payload instanceof Readable))
    return payload
  reply.header('content-encoding', 'gzip').removeHeader('content-length')
  const packed = createGzip()
  // Each stream is destroyed with the other; the sent one reports the error.
  pipeline(payload, packed, () => {})
  return packed
}

import { dirname, join } from 'node:path'
import type { FastifyReply } from 'fastify'
import { shippedFile } from '../lib/files.js'
import { queryOf } from './calls.js'
import { pagePolicy, secured, sendShipped } from './page-files.js'
import { type Router, route } from './routes.js'

/** Path of the page; everything that it loads lies below. */
const PAGE = '/docs'

/** Files of the installed package that the page loads; its other files are not served. */
const ASSETS = ['swagger-ui.css', 'index.css', 'swagger-ui-bundle.js', 'favicon-32x32.png']

/** The page's own styles are set by its scripts. */
const SECURITY_POLICY = pagePolicy()

/** References are relative, so that the page also works below a path of a proxy. */
const HTML = `<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8">
    <meta name="viewport" content="width=device-width, initial-scale=1">
    <title>Sluice management API</title>
    <link rel="stylesheet" href="docs/swagger-ui.css">
    <link rel="stylesheet" href="docs/index.css">
    <link rel="icon" type="image/png" href="docs/favicon-32x32.png">
  </head>
  <body>
    <div id="swagger-ui"></div>
    <noscript>This page needs JavaScript. The description itself is at <a href="openapi.json">openapi.json</a>.</noscript>
    <script src="docs/swagger-ui-bundle.js"></script>
    <script src="docs/page.js"></script>
  </body>
</html>
`

/** Calls go to where the page came from, also when clients know the API under another URL. Keys are not kept. */
const SCRIPT = `(async () => {
  const response = await fetch('openapi.json')
  const spec = await response.json()
  spec.servers = [{ url: new URL('.', location.href).href.replace(/\\/$/, '') }]
  SwaggerUIBundle({
    spec,
    dom_id: '#swagger-ui',
    deepLinking: true,
    displayRequestDuration: true,
    docExpansion: 'none',
    persistAuthorization: false,
    validatorUrl: null
  })
})()
`

/** The page for reading and trying the API. It needs no key; the calls that it makes do. */
export function addDocsPages(router: Router): void {
  const root = dirname(shippedFile(import.meta.url, '@fastify/swagger-ui/static/swagger-ui.css', 'swagger-ui.css'))
  const page = { open: true, entrance: 'dashboard' } as const
  route(router, 'GET', PAGE, page, async (_request, reply) => send(reply, 'text/html', HTML))
  route(router, 'GET', `${PAGE}/page.js`, page, async (_request, reply) => send(reply, 'text/javascript', SCRIPT))
  for (const asset of ASSETS) {
    route(router, 'GET', `${PAGE}/${asset}`, page, async (request, reply) =>
      sendShipped(request, secured(reply, SECURITY_POLICY), join(root, asset), '1h')
    )
  }
}

/** Adds the description of the API; it reveals nothing about the account, and tools fetch it without a key. */
export function addDescription(router: Router, document: () => object): void {
  let text: string | undefined
  route(router, 'GET', '/openapi.json', { open: true }, async (_request, reply) => {
    text ??= JSON.stringify(document())
    return reply.type('application/json; charset=utf-8').header('cache-control', 'no-cache').send(text)
  })
}

/** Redirects the root of the listener to the documentation if there is no dashboard. */
export function redirectToDocs(router: Router): void {
  route(router, 'GET', '/', { open: true, entrance: 'dashboard' }, async (request, reply) => {
    queryOf(request, [])
    return reply.header('location', PAGE.slice(1)).code(302).send()
  })
}

function send(reply: FastifyReply, type: string, text: string): FastifyReply {
  return secured(reply, SECURITY_POLICY).type(`${type}; charset=utf-8`).header('cache-control', 'no-cache').send(text)
}

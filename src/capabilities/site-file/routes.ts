import { sendDone, sendRead, sendWritten } from '../../api/calls.js'
import { defineRoute, type RouteGroup } from '../../api/define-route.js'
import { SITE_FILE, SITE_WRITTEN } from './answers.js'
import { SITE_ADOPTION } from './declared/adoption-form.js'
import { SITE_REQUEST_SCHEMA } from './declared/site-request.js'
import type { Sites } from './sites.js'

/** Bytes of a site file with everything that it names. */
const SITE_LIMIT = 4 * 1024 * 1024

const readSite = defineRoute({
  method: 'GET',
  path: '/site',
  id: 'site_file_get',
  summary: 'What a site file declares, and where it stands there.',
  right: 'site_file',
  answers: 'What is declared; empty without a site file.',
  answer: SITE_FILE,
  etag: true,
  example: {
    uri: 'https://api.example.com/site',
    file: 'sites.yaml',
    origin: 'apply',
    revision: 12,
    digest: 'a1b2c3',
    since: '2026-01-31T12:00:00Z',
    items: [{ kind: 'site', name: 'shop.example.com', line: 1, file: null }]
  },
  run: (_asked, sites: Sites) => sites.get(),
  send: (reply, site, _asked, request) => sendRead(request, reply, { ...site, live: true })
})

const replaceSite = defineRoute({
  method: 'PUT',
  path: '/site',
  id: 'site_file_replace',
  summary:
    'Makes a site file what the account declares, in one write: all of it or nothing. The store keeps it. `{ env: … }` and ' +
    '`{ vault: … }` are resolved here, files come in the body, which may have 4 MiB. A process that was started with a ' +
    'site file refuses it (409), but for a dry run.',
  right: 'site_file',
  write: true,
  body: { schema: SITE_REQUEST_SCHEMA, limit: SITE_LIMIT },
  answers: 'What is declared now, and what changed.',
  answer: SITE_WRITTEN,
  etag: true,
  run: ({ body, mode, call }, sites: Sites) => sites.replace(body, mode, call),
  send: (reply, written, { mode }) => sendWritten(reply, written, 200, mode)
})

const removeSite = defineRoute({
  method: 'DELETE',
  path: '/site',
  id: 'site_file_delete',
  summary: 'Takes the applied file away with everything that it declares.',
  right: 'site_file',
  write: true,
  status: 204,
  answers: 'It is gone.',
  run: ({ mode, call }, sites: Sites) => sites.remove(mode, call),
  send: (reply, done, { mode }) => sendDone(reply, done, mode)
})

const adoptSite = defineRoute({
  method: 'GET',
  path: '/site/adoption',
  id: 'site_file_adoption',
  summary: 'What this API has made, as a site file. Changes nothing.',
  right: 'site_file',
  answers: 'The file, and what it cannot say.',
  answer: SITE_ADOPTION,
  run: (_asked, sites: Sites) => sites.adopt()
})

/** Routes of the site file of the account. */
export const siteRoutes: RouteGroup<Sites> = {
  tag: 'SiteFile',
  description: 'The file that declares sites, backends, certificates and policies.',
  routes: [readSite, replaceSite, removeSite, adoptSite]
}

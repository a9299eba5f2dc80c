import { prefers } from '../../api/calls.js'
import { defineRoute, type RouteGroup } from '../../api/define-route.js'
import { secured } from '../../api/page-files.js'
import { STATUS } from './answers.js'
import { STATUS_PAGE_POLICY } from './html.js'
import type { Status } from './status.js'

const readStatus = defineRoute({
  method: 'GET',
  path: '/status',
  id: 'status_get',
  summary: 'Which sites are up, for everybody. Needs no key. Browsers get a page.',
  access: 'open',
  entrance: 'dashboard',
  lenient: true,
  answers: 'The state of all sites.',
  answer: STATUS,
  also: 'text/html',
  example: {
    status: 'degraded',
    checked_at: '2026-01-31T12:00:00Z',
    sites: [
      { name: 'api.example.com', status: 'down' },
      { name: 'shop.example.com', status: 'up' }
    ],
    omitted: 0
  },
  run: (_asked, status: Status) => status.current(),
  send(reply, { view, page }, _asked, request) {
    reply.header('cache-control', 'public, max-age=5').header('vary', 'accept')
    if (!prefers('text/html', request.headers.accept)) return reply.send(view)
    return secured(reply, STATUS_PAGE_POLICY).type('text/html; charset=utf-8').send(page)
  }
})

/** Routes of the status page. */
export const statusRoutes: RouteGroup<Status> = {
  tag: 'Status',
  description: 'Which sites are up.',
  revision: false,
  routes: [readStatus]
}

import { type Account, callOf, queryOf, sendDone, sendRead, sendWritten, writeMode } from '../../api/calls.js'
import { type Router, route } from '../../api/routes.js'

/** Where the site file of the account is. */
export const SITE_PATH = '/site'

/** What the API has made, as a site file. */
export const ADOPTION_PATH = `${SITE_PATH}/adoption`

/** Bytes of a site file with everything that it names. */
const SITE_LIMIT = 4 * 1024 * 1024

/** The site file of the account: what it declares, and its application in one write. */
export function addSite(router: Router, account: Account): void {
  const { site, configuration } = account
  route(router, 'GET', SITE_PATH, {}, async (request, reply) => {
    queryOf(request, [])
    const serving = configuration.revision
    return sendRead(request, reply, { ...(await site.get(callOf(request))), live: true }, serving)
  })
  route(router, 'PUT', SITE_PATH, { body: 'json', limit: SITE_LIMIT }, async (request, reply) => {
    const mode = writeMode(request)
    return sendWritten(reply, await site.replace(request.body, mode, callOf(request)), 200, mode)
  })
  route(router, 'DELETE', SITE_PATH, {}, async (request, reply) => {
    const mode = writeMode(request)
    return sendDone(reply, await site.remove(mode, callOf(request)), mode)
  })
  route(router, 'GET', ADOPTION_PATH, {}, async (request, reply) => {
    queryOf(request, [])
    const serving = configuration.revision
    return reply.header('service-revision', String(serving)).send(await site.adopt(callOf(request)))
  })
}

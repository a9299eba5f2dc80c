import { type Account, callOf, queryOf, serving } from '../../api/calls.js'
import { parameter, pathOf, type Router, route } from '../../api/routes.js'

/** Where candidates are that run beside traffic. */
export const SHADOWS_PATH = '/shadows'

/** Runs candidates beside traffic and shows what they decide. They change no record, so they make no revision. */
export function addShadows(router: Router, account: Account, baseUrl: () => string): void {
  const { shadows } = account
  const uri = () => `${baseUrl()}${SHADOWS_PATH}`
  const item = `${SHADOWS_PATH}/{id}`
  route(router, 'POST', SHADOWS_PATH, { body: 'json' }, async (request, reply) => {
    queryOf(request, [])
    const { id, shadow } = await shadows.create(request.body, callOf(request))
    return serving(reply, account).code(201).header('location', `${uri()}/${id}`).send(shadow)
  })
  route(router, 'GET', SHADOWS_PATH, {}, async (request, reply) => {
    queryOf(request, [])
    const list = shadows.list(callOf(request))
    return serving(reply, account).send({ shadows: list, uri: uri(), next_page_uri: null })
  })
  route(router, 'GET', item, {}, async (request, reply) => {
    queryOf(request, [])
    const shadow = shadows.get(parameter(pathOf(request), 'id'), callOf(request))
    return serving(reply, account).send(shadow)
  })
  route(router, 'DELETE', item, {}, async (request, reply) => {
    queryOf(request, [])
    shadows.remove(parameter(pathOf(request), 'id'), callOf(request))
    return serving(reply, account).code(204).send()
  })
}

import { type Account, callOf, queryOf, type Router, route } from './calls.js'

/** Where requests are explained. */
export const EXPLAIN_PATH = '/explain'

/** Says how requests would be decided, without sending them. */
export function addExplanations(router: Router, { explanations, configuration }: Account): void {
  route(router, 'POST', EXPLAIN_PATH, { body: 'json' }, async (request, reply) => {
    queryOf(request, [])
    const explained = await explanations.explain(request.body, callOf(request))
    return reply.header('service-revision', String(configuration.revision)).send({ explanations: explained })
  })
}

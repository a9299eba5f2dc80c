import { type Account, callOf, queryOf, serving } from '../../api/calls.js'
import { parameter, pathOf, type Router, route } from '../../api/routes.js'

/** Where requests are explained. */
export const EXPLAIN_PATH = '/explain'

/** The text of a policy that serves. */
export const EXPLAINED_POLICY_PATH = `${EXPLAIN_PATH}/policies/{owner}`

/** Says how requests would be decided, without sending them. */
export function addExplanations(router: Router, account: Account): void {
  const { explanations } = account
  route(router, 'POST', EXPLAIN_PATH, { body: 'json' }, async (request, reply) => {
    queryOf(request, [])
    const explained = await explanations.explain(request.body, callOf(request))
    return serving(reply, account).send({ explanations: explained })
  })
  route(router, 'GET', EXPLAINED_POLICY_PATH, {}, async (request, reply) => {
    queryOf(request, [])
    return serving(reply, account).send(explanations.policy(parameter(pathOf(request), 'owner'), callOf(request)))
  })
}

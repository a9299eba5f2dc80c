import { type Account, callOf, queryOf, serving } from './calls.js'
import { type Router, route } from './routes.js'

/** What is wrong with a policy that serves nowhere yet. */
export const POLICY_CHECK_PATH = '/policies/check'
/** Runs tests on it. */
export const POLICY_TEST_PATH = '/policies/test'
/** What policies can say. */
export const POLICY_LANGUAGE_PATH = '/policies/language'

/** Checks and tests policies before they serve, and tells editors what they can say. */
export function addPolicies(router: Router, account: Account): void {
  const { policies } = account
  route(router, 'POST', POLICY_CHECK_PATH, { body: 'json' }, async (request, reply) => {
    queryOf(request, [])
    return serving(reply, account).send(await policies.check(request.body, callOf(request)))
  })
  route(router, 'POST', POLICY_TEST_PATH, { body: 'json' }, async (request, reply) => {
    queryOf(request, [])
    return serving(reply, account).send(await policies.test(request.body, callOf(request)))
  })
  route(router, 'GET', POLICY_LANGUAGE_PATH, {}, async (request, reply) => {
    queryOf(request, [])
    return serving(reply, account).send(policies.describe())
  })
}

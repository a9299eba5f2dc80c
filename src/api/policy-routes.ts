import { POLICY_CHECK_SCHEMA, POLICY_TEST_SCHEMA, type Policies } from '../control/policies.js'
import { POLICY_CHECK, POLICY_LANGUAGE, POLICY_TEST } from '../control/policy-answers.js'
import { defineRoute, type RouteGroup } from './define-route.js'

interface PolicyService {
  readonly account: { readonly policies: Policies }
}

const checkPolicy = defineRoute({
  method: 'POST',
  path: '/policies/check',
  id: 'policy_check',
  summary: 'Checks a traffic policy as "sluice check" does. Nothing is written.',
  body: { schema: POLICY_CHECK_SCHEMA },
  answers: 'What is wrong, and what it warns of.',
  answer: POLICY_CHECK,
  run: ({ body, call }, { account }: PolicyService) => account.policies.check(body, call)
})

const testPolicy = defineRoute({
  method: 'POST',
  path: '/policies/test',
  id: 'policy_test',
  summary: 'Runs tests on a traffic policy as "sluice test" does. Nothing is sent.',
  body: { schema: POLICY_TEST_SCHEMA },
  answers: 'What came of each case.',
  answer: POLICY_TEST,
  run: ({ body, call }, { account }: PolicyService) => account.policies.test(body, call)
})

const readLanguage = defineRoute({
  method: 'GET',
  path: '/policies/language',
  id: 'policy_language',
  summary: 'What traffic policies can say, for editors.',
  answers: 'The language.',
  answer: POLICY_LANGUAGE,
  run: (_asked, { account }: PolicyService) => account.policies.describe()
})

/** Routes of policies before they serve. */
export const policyRoutes: RouteGroup<PolicyService> = {
  tag: 'Policies',
  description: 'Traffic policies before they serve.',
  routes: [checkPolicy, testPolicy, readLanguage]
}

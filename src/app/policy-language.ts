import type { PolicyLanguage } from '../control/policies.js'
import type { PolicyLanguageView, PolicyTestView } from '../control/policy-answers.js'
import type { PolicyTestRun, TestProblem } from '../control/policy-tests.js'
import { documentedFunctions, documentedVariables } from '../expression/catalogue.js'
import { functionMeaning, variableMeaning } from '../expression/meanings/meaning.js'
import { actions } from '../features/registry.js'
import { systemClock } from '../lib/clock.js'
import { noGeo } from '../lib/geo.js'
import { UserAgents } from '../lib/user-agent.js'
import { type Action, resultMeanings, resultsOf } from '../policy/action.js'
import { policySchema } from '../policy/json-schema.js'
import { judgePaths } from '../policy/problems.js'
import type { PolicyServices } from '../policy/services.js'
import { policyProblems } from './policy-check.js'

/** Returns the variables and functions of expressions, with their descriptions. */
export function languageCatalogue() {
  const results = resultsOf(actions)
  const published = resultMeanings(actions)
  const variables = documentedVariables({ results, clock: systemClock, geo: noGeo, userAgent: new UserAgents() })
  return {
    variables: variables.map((one) => {
      return { ...one, description: published.get(one.path) ?? variableMeaning(one.path) ?? '' }
    }),
    functions: documentedFunctions({ random: Math.random }).map((one) => {
      const [description = '', example = '', value = ''] = functionMeaning(one.signature) ?? []
      return { ...one, description, example, value }
    })
  }
}

/**
 * Creates the policy language from its services. `listeners`: are clients connected by IPv6, and do paths keep characters that the strict form
 * rejects?
 */
export function policyLanguage(
  services: PolicyServices,
  runTests: PolicyTestRun,
  listeners: () => { readonly takesIpv6: boolean; readonly takesLenientPaths: boolean }
): PolicyLanguage {
  let described: PolicyLanguageView | undefined
  const problemsOf = policyProblems(services, actions, () => listeners().takesIpv6)
  return {
    *check(text, layer, limits) {
      return judgePaths(yield* problemsOf(text, layer, limits), !listeners().takesLenientPaths)
    },
    describe() {
      described ??= describeLanguage()
      return described
    },
    async test(policy, tests, limits) {
      const { problems, cases } = await runTests({ policy, tests, limits })
      return {
        passed: cases.filter(({ failure }) => failure === undefined).length,
        failed: cases.filter(({ failure }) => failure !== undefined).length,
        cases: cases.map(({ name, line, failure }) => {
          return { name, line, passed: failure === undefined, failure: failure === undefined ? null : shown(failure) }
        }),
        problems: problems.map(shown)
      }
    }
  }
}

function shown({ code, message, path, line, column, failed }: TestProblem): PolicyTestView['problems'][number] {
  const { what = null, expected = null, found = null } = failed ?? {}
  return { code, message, path, line, column, what, expected, found }
}

function describeLanguage(): PolicyLanguageView {
  const { variables, functions } = languageCatalogue()
  return {
    schema: { ...policySchema(actions) },
    actions: actions.flatMap(actionShown),
    variables: variables.map(({ path, type, phases, optional = false, description }) => {
      return { path, type, phases: phases ?? 'all', optional, description }
    }),
    functions: functions.map((one) => {
      const { signature, description, example, value } = one
      return { signature, phases: ('phases' in one && one.phases) || 'all', description, example, value }
    })
  }
}

function actionShown(action: Action): PolicyLanguageView['actions'] {
  if (action.availability === 'unsupported') return []
  const { type, summary, phases, terminates, configOptional } = action
  return [{ type, summary, phases, terminates, config_optional: configOptional }]
}

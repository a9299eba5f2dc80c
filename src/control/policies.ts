import { CALLER_LIMITS, counted, type DocumentLimits, type TestLimits } from '../lib/caller-limits.js'
import { Slices, type Steps } from '../lib/slices.js'
import type { Problem } from '../policy/problems.js'
import type { Call } from './calls.js'
import type { PolicyCheckView, PolicyLanguageView, PolicyTestView } from './policy-answers.js'
import { membersOf, textOf, wordOf } from './request-body.js'

/** Carriers of policies: a route of an HTTPS edge, or a TCP edge. */
const LAYERS = ['http', 'tcp'] as const
type Layer = (typeof LAYERS)[number]

/** The language of policies, as editors need it. */
export interface PolicyLanguage {
  /** Yields to find the errors and warnings of a document, with the compiler that runs policies. */
  check(text: string, layer: Layer, limits?: DocumentLimits): Steps<readonly Problem[]>
  /** Actions, variables and functions, and the JSON Schema of documents. */
  describe(): PolicyLanguageView
  /** Runs tests on a policy that serves nowhere. */
  test(
    policy: string,
    tests: string,
    limits?: TestLimits & { readonly documents: DocumentLimits }
  ): Promise<PolicyTestView>
}

const text = (description: string) => ({ type: 'string', description })

/** JSON Schema of the body of `POST /policies/check`. */
export const POLICY_CHECK_SCHEMA = {
  type: 'object',
  title: 'PolicyCheckRequest',
  properties: {
    text: text('The policy document: YAML or JSON.'),
    layer: {
      enum: LAYERS,
      default: 'http',
      description: 'What is to carry it: a route of an HTTPS edge, or a TCP edge.'
    }
  },
  required: ['text'],
  additionalProperties: false
} as const

/** JSON Schema of the body of `POST /policies/test`. */
export const POLICY_TEST_SCHEMA = {
  type: 'object',
  title: 'PolicyTestRequest',
  properties: {
    text: text('The policy document: YAML or JSON.'),
    tests: text('Its tests, in the form of files for "sluice test".')
  },
  required: ['text', 'tests'],
  additionalProperties: false
} as const

/** Operations on policies that do not serve yet. Fails with a ControlError for an invalid body. */
export class Policies {
  readonly #language: PolicyLanguage | undefined

  /** `language` is undefined if this process runs no policies. */
  constructor(language: PolicyLanguage | undefined) {
    this.#language = language
  }

  /** Errors and warnings of a document with their places. */
  async check(body: unknown, { principal }: Call): Promise<PolicyCheckView> {
    const { text: document, layer } = membersOf(body, '', Object.keys(POLICY_CHECK_SCHEMA.properties))
    const limits = principal.role === 'member' ? CALLER_LIMITS.member.documents : undefined
    const checking = this.#known.check(textOf(document, 'text'), wordOf(layer, 'layer', LAYERS, 'http'), limits)
    const problems = await Slices.besideTraffic().run(checking)
    return {
      valid: problems.every(({ severity }) => severity !== 'error'),
      problems: problems.map(({ severity, code, message, path, line, column, length }) => {
        return { severity, code, message, path, line, column, length }
      })
    }
  }

  /** Returns the elements of the policy language. */
  describe(): PolicyLanguageView {
    return this.#known.describe()
  }

  /** Returns the results of tests on a policy. */
  async test(body: unknown, { principal, spend }: Call): Promise<PolicyTestView> {
    const { text: document, tests } = membersOf(body, '', Object.keys(POLICY_TEST_SCHEMA.properties))
    const [policy, text] = [textOf(document, 'text'), textOf(tests, 'tests')]
    const { member } = CALLER_LIMITS
    const limits = principal.role === 'member' ? { ...member.tests, documents: member.documents } : undefined
    return await counted(spend, () => this.#known.test(policy, text, limits))
  }

  get #known(): PolicyLanguage {
    if (this.#language === undefined) throw new TypeError('a process without policies checks none')
    return this.#language
  }
}

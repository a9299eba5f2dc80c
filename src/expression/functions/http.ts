import type { Flow } from '../../flow/flow.js'
import { EvaluationError } from '../expression.js'
import type { FlowFunctionDefinition } from '../signatures.js'
import { type Cookie, requestCookies, requestOf, responseCookies, responseOf } from '../variables/message.js'

const NO_COOKIE = new EvaluationError('absent', 'the request has no such cookie')
const NONE: readonly string[] = []

function cookie(flow: Flow, name: string): Cookie | EvaluationError {
  return requestCookies(flow).get(name)?.[0] ?? NO_COOKIE
}

const requestDefinitions: readonly FlowFunctionDefinition[] = [
  {
    signature: 'getReqHeader(string): list<string>',
    runWith: (flow, name: string) => requestOf(flow).headers.byName.get(name.toLowerCase()) ?? NONE,
    prepareWith: (name: string) => {
      const key = name.toLowerCase()
      return (flow) => requestOf(flow).headers.byName.get(key) ?? NONE
    }
  },
  {
    signature: 'hasReqHeader(string): bool',
    runWith: (flow, name: string) => requestOf(flow).headers.byName.has(name.toLowerCase()),
    prepareWith: (name: string) => {
      const key = name.toLowerCase()
      return (flow) => requestOf(flow).headers.byName.has(key)
    }
  },
  {
    signature: 'getQueryParam(string): list<string>',
    runWith: (flow, name: string) => requestOf(flow).target.parameters.get(name) ?? NONE
  },
  {
    signature: 'hasQueryParam(string): bool',
    runWith: (flow, name: string) => requestOf(flow).target.parameters.has(name)
  },
  { signature: 'getReqCookie(string): map<string, dyn>', runWith: cookie },
  { signature: 'hasReqCookie(string): bool', runWith: (flow, name: string) => requestCookies(flow).has(name) }
]

/** Functions that read the request. */
export const requestFunctions: readonly FlowFunctionDefinition[] = requestDefinitions.map((one) => ({
  ...one,
  phases: 'http'
}))

const NO_SET_COOKIE = new EvaluationError('absent', 'the response sets no such cookie')

function setCookie(flow: Flow, name: string): Cookie | EvaluationError {
  return responseCookies(flow).get(name)?.[0] ?? NO_SET_COOKIE
}

const responseDefinitions: readonly FlowFunctionDefinition[] = [
  {
    signature: 'getResHeader(string): list<string>',
    runWith: (flow, name: string) => responseOf(flow).headers.byName.get(name.toLowerCase()) ?? NONE,
    prepareWith: (name: string) => {
      const key = name.toLowerCase()
      return (flow) => responseOf(flow).headers.byName.get(key) ?? NONE
    }
  },
  {
    signature: 'hasResHeader(string): bool',
    runWith: (flow, name: string) => responseOf(flow).headers.byName.has(name.toLowerCase()),
    prepareWith: (name: string) => {
      const key = name.toLowerCase()
      return (flow) => responseOf(flow).headers.byName.has(key)
    }
  },
  { signature: 'getResCookie(string): map<string, dyn>', runWith: setCookie },
  { signature: 'hasResCookie(string): bool', runWith: (flow, name: string) => responseCookies(flow).has(name) }
]

/** Functions that read the response; of cookies of one name the one with the longest path. */
export const responseFunctions: readonly FlowFunctionDefinition[] = responseDefinitions.map((one) => ({
  ...one,
  phases: 'response'
}))

const MISSING = new EvaluationError('failed', 'there is no such secret')

/** `secrets.get(vault, name)`: from the configuration that serves the flow, so a new value counts from the next one on. */
export const secretFunctions: readonly FlowFunctionDefinition[] = [
  {
    signature: 'secrets.get(string, string): string',
    runWith: (flow, vault: string, name: string) => {
      const value = flow.secret(vault, name)
      if (value === undefined) throw MISSING
      return value
    }
  }
]

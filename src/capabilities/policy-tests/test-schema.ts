import type { Static } from 'typebox'
import { any, choice, duration, either, flag, integer, list, map, object, optional, text } from '../../schema/values.js'

const headerValue = either(
  [text({ description: 'One field.' }), list(text({ description: 'One field.' }), { description: 'Several fields.' })],
  { description: 'Value of a header field, or of several of one name.' }
)

const headers = (description: string) => map(headerValue, { description })

const request = object(
  {
    url: optional(text({ description: 'Absolute, http or https; instead of host and path.' })),
    path: optional(text({ description: 'Path and query.' })),
    host: optional(text({ description: 'Host, with a port if it is not the usual one.' })),
    method: optional(text({ description: 'Method.', min: 1 })),
    headers: optional(headers('Header fields.')),
    body: optional(text({ description: 'Body.' })),
    client_ip: optional(text({ description: 'IP address that it comes from.' })),
    http_version: optional(choice(['1.0', '1.1', '2'], { description: 'What it comes in.' }))
  },
  { description: 'A request; what it leaves out is that of the defaults.' }
)

const answer = {
  status: optional(integer({ description: 'Status, 200 if left out.', min: 100, max: 599 })),
  headers: optional(headers('Header fields.')),
  body: optional(text({ description: 'Body.' }))
}

const upstream = object(answer, { description: 'What the upstream answers.' })

const stub = object(
  {
    url: text({ description: 'URL that a policy asks; with * at its end every URL that begins so.', min: 1 }),
    method: optional(text({ description: 'Only requests with this method.' })),
    ...answer,
    unreachable: optional(flag({ description: 'It cannot be reached.', default: false }))
  },
  { description: 'Stands in for a server that policies ask.' }
)

const wanted = either(
  [
    text({ description: 'Exactly this.' }),
    object(
      {
        contains: optional(text({ description: 'This stands in it.' })),
        matches: optional(text({ description: 'Regular expression of RE2 syntax.' }))
      },
      { description: 'A part of it.', min: 1 }
    )
  ],
  { description: 'A text, or { contains: … } or { matches: … }.' }
)

const nothing = any({ description: 'null: it must not be there.' })

const expectation = object(
  {
    status: optional(integer({ description: 'Status of the answer; 0: the connection is closed.', min: 0, max: 599 })),
    outcome: optional(choice(['forwarded', 'answered', 'closed'], { description: 'What becomes of the request.' })),
    decided: optional(
      text({ description: 'The decision in a few words, as sluice log shows it: forwarded, 429 rate-limit, closed.' })
    ),
    code: optional(nothing),
    rule: optional(nothing),
    action: optional(nothing),
    headers: optional(
      map(nothing, { description: 'Fields of the answer: a text, { contains }, { matches }, or null.' })
    ),
    body: optional(wanted),
    upstream: optional(
      object(
        {
          method: optional(text({ description: 'Method.' })),
          uri: optional(text({ description: 'Path and query.' })),
          headers: optional(map(nothing, { description: 'Fields as the upstream sees them; null: not there.' }))
        },
        { description: 'What reaches the upstream.' }
      )
    ),
    waf: optional(
      object(
        {
          score: optional(integer({ description: 'Anomaly score.', min: 0, max: 1_000_000 })),
          rules: optional(
            list(integer({ description: 'Id of a rule.', min: 900_000, max: 999_999 }), {
              description: 'All rules that match, in any order; []: none.',
              max: 100
            })
          )
        },
        { description: 'Result of the web application firewall: request and response together.', min: 1 }
      )
    ),
    published: optional(
      map(nothing, {
        description: 'Results of actions, such as rate_limit: { remaining: 3 }; other members may be there.'
      })
    )
  },
  { description: 'What must come of it; what is left out may be anything.' }
)

const step = {
  request: optional(request),
  upstream: optional(upstream),
  repeat: optional(
    integer({ description: 'How often it comes; each time the same is expected.', min: 1, max: 1_000_000 })
  ),
  every: optional(duration({ description: 'Time from one to the next', min: 0, max: 31_536_000_000 })),
  wait: optional(duration({ description: 'Time that passes first', min: 0, max: 31_536_000_000 })),
  expect: optional(expectation)
}

const stubs = list(stub, { description: 'Servers that policies ask; the first that fits answers.', max: 1_000 })

const testCase = object(
  {
    name: text({ description: 'What must hold.', min: 1, max: 1_000 }),
    now: optional(text({ description: 'When it begins (RFC 3339).' })),
    matrix: optional(
      map(list(any({ description: 'A value.' }), { description: 'Values.', min: 1, max: 1_000 }), {
        description: 'The case runs once for each combination; ${name} stands for a value.'
      })
    ),
    stubs: optional(stubs),
    steps: optional(list(object(step, { description: 'A step.' }), { description: 'Steps in their order.', min: 1 })),
    ...step
  },
  { description: 'A case; its counters begin with nothing.' }
)

/** The form of a file of tests. */
export const testFileSchema = object(
  {
    policy: optional(text({ description: 'The policy, relative to this file; absent: x.yaml for x.test.yaml.' })),
    now: optional(text({ description: 'When cases begin (RFC 3339); absent: 2026-01-01T00:00:00Z.' })),
    defaults: optional(request),
    upstream: optional(upstream),
    stubs: optional(stubs),
    secrets: optional(
      map(map(text({ description: 'Its value.' }), { description: 'Secrets by name.' }), {
        description: 'Vaults by name.'
      })
    ),
    ip_policies: optional(
      map(
        object(
          {
            allow: optional(list(text({ description: 'A network.' }), { description: 'Networks that are let in.' })),
            deny: optional(list(text({ description: 'A network.' }), { description: 'Networks that are not.' }))
          },
          { description: 'Networks.' }
        ),
        { description: 'IP policies by id.' }
      )
    ),
    recorded: optional(
      list(text({ description: 'A file, relative to this one.', min: 1 }), {
        description:
          'HTTP Archives (HAR), such as sluice log --har writes: each of their requests must be decided as it was.',
        max: 1_000
      })
    ),
    cases: optional(list(testCase, { description: 'The cases.', min: 1, max: 100_000 }))
  },
  { description: 'Tests of a traffic policy.' }
)

/** Parsed test file. */
export type TestFile = Static<typeof testFileSchema>
type TestCase = NonNullable<TestFile['cases']>[number]
/** One step of a test file. */
export type WrittenStep = NonNullable<TestCase['steps']>[number]
/** Expected result of a step. */
export type Expectation = NonNullable<WrittenStep['expect']>
/** A stub of a test file. */
export type WrittenStub = NonNullable<TestFile['stubs']>[number]

import { defineRoute, type RouteGroup } from '../../api/define-route.js'
import { EXPLAINED_POLICY, EXPLANATION_LIST } from './answers.js'
import { EXPLAIN_SCHEMA, type Explanations } from './explanations.js'

const explainRequests = defineRoute({
  method: 'POST',
  path: '/explain',
  id: 'explain',
  summary:
    'Says how requests would be decided by what serves, or with other policies. Sends nothing and changes nothing.',
  right: 'explain',
  body: { schema: EXPLAIN_SCHEMA },
  answers: 'The explanations.',
  answer: EXPLANATION_LIST,
  example: {
    explanations: [
      {
        at: '2026-01-31T12:00:00.000Z',
        revision: 12,
        request: { method: 'GET', url: 'https://shop.example.com/cart', client_ip: '203.0.113.9', headers: [] },
        listener: 'default',
        edge: { id: 'edghts_2aB', name: 'shop.example.com', host: 'shop.example.com', port: 443 },
        other_ports: [],
        route: { id: 'edghtsrt_2aC', name: 'shop.example.com/', path: '/', match: 'prefix' },
        other_routes: [],
        steps: [
          {
            module: 'traffic_policy',
            owner: 'edghtsrt_2aC',
            on: 'request',
            outcome: 'responded',
            phases: [
              {
                phase: 'on_http_request',
                owner: 'edghtsrt_2aC',
                rules: [
                  {
                    name: 'closed',
                    place: { line: 2, column: 5 },
                    outcome: 'matched',
                    expressions: [
                      {
                        source: "req.url.path == '/cart'",
                        place: { line: 3, column: 20 },
                        value: true,
                        parts: [{ offset: 0, length: 12, value: '/cart' }]
                      }
                    ],
                    actions: [
                      {
                        type: 'deny',
                        place: { line: 4, column: 16 },
                        outcome: 'ended',
                        published: {},
                        edits: [],
                        expressions: []
                      }
                    ]
                  }
                ]
              }
            ]
          }
        ],
        policies: [{ owner: 'edghtsrt_2aC', source: '/edges/https/edghts_2aB/routes/edghtsrt_2aC', digest: 'a1b2c3' }],
        decision: {
          outcome: 'answered',
          status: 403,
          code: 'POLICY_DENIED',
          reason: '403 by deny, rule "closed"',
          by: { phase: 'on_http_request', rule: 'closed', action: 'deny' }
        },
        waf: [],
        upstream: null,
        response: { status: 403, headers: ['content-type', 'text/plain'], body: null },
        omitted: 0,
        not_asked: []
      }
    ]
  },
  run: async ({ body }, explanations: Explanations) => ({ explanations: await explanations.explain(body) })
})

const readPolicy = defineRoute({
  method: 'GET',
  path: '/explain/policies/{owner}',
  id: 'getExplainedPolicy',
  summary: 'The text of a traffic policy that serves, to which places lead.',
  right: 'explain',
  answers: 'The text.',
  answer: EXPLAINED_POLICY,
  run: ({ params: { owner } }, explanations: Explanations) => explanations.policy(owner)
})

/** Routes that explain decisions. */
export const explainRoutes: RouteGroup<Explanations> = {
  tag: 'Explain',
  description: 'How requests are decided.',
  routes: [explainRequests, readPolicy]
}

import { defineRoute, type RouteGroup } from '../../api/define-route.js'
import { SHADOW, SHADOW_LIST, type ShadowView } from './answers.js'
import { SHADOW_SCHEMA, type Shadows } from './shadows.js'

const EXAMPLE: ShadowView = {
  id: 'shd_2aB',
  uri: 'https://api.example.com/shadows/shd_2aB',
  name: 'stricter limit',
  state: 'running',
  ended_reason: null,
  created_at: '2026-01-31T12:00:00Z',
  expires_at: '2026-01-31T13:00:00Z',
  ended_at: null,
  revision: 12,
  routes: ['edghtsrt_2aC'],
  share: 0.1,
  budget: '2ms',
  counters: 'running',
  counts: { seen: 3, judged: 3, same: 2, changed: 1, not_judged: 0, over_budget: 0, dropped: 0, waiting: 0 },
  not_judged: {},
  work: { milliseconds: 0.4, slowest: 0.2 },
  matrix: [
    {
      old: { decision: 'forwarded', status: null, code: null, by: null },
      new: {
        decision: 'limited',
        status: 429,
        code: 'RATE_LIMITED',
        by: { phase: 'on_http_request', rule: 'per client', action: 'rate-limit' }
      },
      differs: ['decision', 'response'],
      count: 1,
      examples: []
    }
  ],
  others: 0
}

const createShadow = defineRoute({
  method: 'POST',
  path: '/shadows',
  id: 'shadows_create',
  summary: 'Runs policies, or changes, beside what serves; the process keeps it in memory.',
  right: 'shadow',
  body: { schema: SHADOW_SCHEMA },
  status: 201,
  answers: 'It runs.',
  answer: SHADOW,
  run: ({ body, call }, shadows: Shadows) => shadows.create(body, call)
})

const listShadows = defineRoute({
  method: 'GET',
  path: '/shadows',
  id: 'shadows_list',
  summary: 'The shadows of the process that answers.',
  right: 'shadow',
  answers: 'The shadows.',
  answer: SHADOW_LIST,
  run: (_asked, shadows: Shadows) => shadows.list()
})

const readShadow = defineRoute({
  method: 'GET',
  path: '/shadows/{id}',
  id: 'shadows_get',
  summary: 'What a shadow has seen.',
  right: 'shadow',
  answers: 'The shadow.',
  answer: SHADOW,
  example: EXAMPLE,
  run: ({ params: { id } }, shadows: Shadows) => shadows.get(id)
})

const removeShadow = defineRoute({
  method: 'DELETE',
  path: '/shadows/{id}',
  id: 'shadows_delete',
  summary: 'Ends a shadow and forgets what it has seen.',
  right: 'shadow',
  status: 204,
  answers: 'It is gone.',
  run: ({ params: { id } }, shadows: Shadows) => shadows.remove(id)
})

/** Routes of candidates beside traffic. They change no record, so they make no revision. */
export const shadowRoutes: RouteGroup<Shadows> = {
  tag: 'Shadows',
  description: 'Candidates beside traffic.',
  routes: [createShadow, listShadows, readShadow, removeShadow]
}

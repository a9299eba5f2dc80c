import type { Family } from './rows.js'

/** Families whose objects agents and visitors make, and sources of subscriptions. Objects are those of `openStage`. */
export const liveFamilies: readonly Family[] = [
  {
    name: 'event_sources',
    path: '/event_subscriptions/$subscription/sources',
    prefix: '',
    key: 'type',
    list: 'sources',
    whole: true,
    before: [['subscription', '/event_subscriptions', { sources: [{ type: 'ip_policy_created.v0' }] }]],
    create: { type: 'ip_policy_updated.v0' },
    needs: ['type'],
    other: { type: 'ip_policy_deleted.v0' },
    zeros: { create: { type: '' } },
    answer: { type: ':text', uri: ':text' },
    update: {}
  },
  {
    name: 'tunnel_sessions',
    path: '/tunnel_sessions',
    prefix: 'ts',
    list: 'tunnel_sessions',
    filter: true,
    operations: ['get', 'list'],
    answer: {
      id: ':id',
      uri: ':uri',
      agent_version: ':text',
      credential: ':ref',
      ip: ':text',
      metadata: ':text',
      os: ':text',
      region: ':text',
      started_at: ':time',
      transport: 'ngrok/2'
    },
    extra: ['restart', 'stop', 'update'].map((name) => ({ name, method: 'POST', path: `/${name}` }))
  },
  {
    name: 'tunnels',
    path: '/tunnels',
    prefix: 'tn',
    list: 'tunnels',
    operations: ['get', 'list'],
    answer: {
      id: ':id',
      endpoint: ':ref',
      forwards_to: ':text',
      proto: ':text',
      public_url: ':text',
      region: ':text',
      started_at: ':time',
      tunnel_session: ':ref'
    }
  },
  {
    name: 'application_users',
    path: '/app/users',
    prefix: 'au',
    list: 'application_users',
    operations: ['get', 'list', 'delete'],
    answer: {
      id: ':id',
      uri: ':uri',
      created_at: ':time',
      identity_provider: { name: ':text', url: ':text' },
      provider_user_id: ':text',
      username: ':text?',
      email: ':text?',
      name: ':text?',
      last_active: ':time',
      last_login: ':time'
    }
  },
  {
    name: 'application_sessions',
    path: '/app/sessions',
    prefix: 'as',
    list: 'application_sessions',
    operations: ['get', 'list', 'delete'],
    answer: {
      id: ':id',
      uri: ':uri',
      created_at: ':time',
      public_url: ':text',
      browser_session: {
        user_agent: {
          raw: ':text',
          browser_name: ':text?',
          browser_version: ':text?',
          device_type: ':text?',
          os_name: ':text?',
          os_version: ':text?'
        },
        ip_address: ':text',
        location: ':any'
      },
      application_user: ':ref',
      last_active: ':time',
      expires_at: ':time',
      endpoint: ':any',
      edge: ':any',
      route: ':any'
    }
  }
]

/** Endpoints of agents and edges, as the list of endpoints shows them. */
export const listedEndpoints = {
  ephemeral: {
    bindings: ['public'],
    created_at: ':time',
    hostport: ':hostport',
    id: ':opaque',
    name: ':text',
    pooling_enabled: false,
    principal: ':user',
    proto: ':text',
    public_url: ':text',
    tunnel: ':ref',
    tunnel_session: ':ref',
    type: 'ephemeral',
    updated_at: ':time',
    upstream_protocol: ':text',
    upstream_url: 'http://localhost:80',
    scheme: 'https',
    tcp_addr: null,
    url: ':text'
  },
  edge: {
    created_at: ':time',
    bindings: ['public'],
    edge: ':ref',
    hostport: ':hostport',
    id: ':opaque',
    pooling_enabled: false,
    proto: ':text',
    public_url: ':text',
    type: 'edge',
    updated_at: ':time'
  }
}

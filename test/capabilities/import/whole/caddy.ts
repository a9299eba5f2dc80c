import { readCaddy } from '../../../../src/capabilities/import/caddy/read.js'
import type { WholeFiles } from './shape.js'

const HASH = '$2a$14$Zkx19XLiW6VYouLHR5NmfOFU0z2GTNmpkT/5qqR7hx4IjWJPDhjvG'

/** Eleven Caddyfiles, two of which need plugins or PHP. */
export const CADDY: WholeFiles = {
  read: readCaddy,
  file: 'Caddyfile',
  files: [
    {
      name: 'one proxy',
      text: ':80 {\n\treverse_proxy localhost:3000\n}\n',
      visits: [{ host: 'any.test', path: '/a?b', status: 200, target: '/a?b' }]
    },
    {
      name: 'a single-page application with its API',
      text: `http://app.example.test {
	root * /srv/dist
	encode zstd gzip
	handle /api/* {
		reverse_proxy api:4000
	}
	handle {
		try_files {path} /index.html
		file_server
	}
}
`,
      visits: [
        { host: 'app.example.test', path: '/api/x', status: 200, target: '/api/x' },
        { host: 'app.example.test', path: '/orders/7', status: 200, body: 'home' }
      ]
    },
    {
      name: 'TLS with certificates from files',
      text: `{
	email admin@example.test
}
shop.example.test {
	tls /etc/ssl/site.pem /etc/ssl/site.key
	header {
		Strict-Transport-Security max-age=31536000
		-Server
	}
	reverse_proxy 10.0.0.1:8080 10.0.0.2:8080 {
		lb_policy least_conn
		health_uri /healthz
		health_interval 10s
	}
}
`,
      visits: [
        { host: 'shop.example.test', path: '/a', status: 308 },
        { port: 443, host: 'shop.example.test', path: '/a', status: 200, target: '/a' }
      ]
    },
    {
      name: 'several hosts with a snippet',
      text: `(common) {
	encode gzip
	header X-Frame-Options DENY
	log {
		output file /var/log/caddy/access.log
	}
}
http://one.example.test {
	import common
	reverse_proxy one:8080
}
http://two.example.test, http://www.two.example.test {
	import common
	reverse_proxy two:8080 {
		header_up X-Real-IP {remote_host}
	}
}
`,
      visits: [
        { host: 'one.example.test', path: '/1', status: 200, target: '/1' },
        { host: 'www.two.example.test', path: '/2', status: 200, target: '/2' }
      ]
    },
    {
      name: 'a prefix that is stripped, and a redirect',
      text: `http://example.test {
	redir /docs /docs/ 308
	handle_path /docs/* {
		reverse_proxy docs:3000
	}
	handle /healthz {
		respond "ok" 200
	}
	handle {
		respond 404
	}
}
`,
      visits: [
        { host: 'example.test', path: '/docs/a', status: 200, target: '/a' },
        { host: 'example.test', path: '/healthz', status: 200, body: 'ok' },
        { host: 'example.test', path: '/x', status: 404 }
      ]
    },
    {
      name: 'a host without www',
      text: `http://www.example.test {
	redir http://example.test{uri} permanent
}
http://example.test {
	root * /srv/docs
	file_server browse
}
`,
      visits: [
        { host: 'www.example.test', path: '/a?b=1', status: 301, location: 'http://example.test/a?b=1' },
        { host: 'example.test', path: '/', status: 200, body: 'home' }
      ]
    },
    {
      name: 'passwords for a part',
      text: `http://admin.example.test {
	basic_auth /private/* {
		anna ${HASH}
	}
	reverse_proxy 127.0.0.1:9000
}
`,
      visits: [
        { host: 'admin.example.test', path: '/private/x', status: 401 },
        { host: 'admin.example.test', path: '/x', status: 200, target: '/x' }
      ]
    },
    {
      name: 'variables of the environment in upstreams',
      text: `http://{$SITE_ADDRESS:env.example.test} {
	reverse_proxy {$APP_HOST:app}:{$APP_PORT:3000}
}
`,
      visits: [{ host: 'env.example.test', path: '/x', status: 200, target: '/x' }]
    },
    {
      name: 'matchers of paths, methods and fields',
      text: `:8080 {
	@write {
		method POST PUT DELETE
		path /api/*
	}
	@websocket {
		header Connection *Upgrade*
		header Upgrade websocket
	}
	handle @websocket {
		reverse_proxy ws:6001
	}
	handle @write {
		reverse_proxy writer:8080
	}
	handle {
		reverse_proxy reader:8080
	}
}
`,
      visits: [{ port: 8080, host: 'any.test', path: '/api/1', status: 200, target: '/api/1' }]
    },
    {
      name: 'PHP, which is not converted',
      text: `http://php.example.test {
	root * /srv/dist
	php_fastcgi unix//run/php/php-fpm.sock
	file_server
}
`,
      isPart: true,
      visits: [{ host: 'php.example.test', path: '/index.php', status: 503 }]
    },
    {
      name: 'a directive of a plugin, which is not converted',
      text: `http://limited.example.test {
	rate_limit {
		zone all {
			key {remote_host}
			events 100
			window 1m
		}
	}
	reverse_proxy app:3000
}
`,
      isPart: true,
      visits: [{ host: 'limited.example.test', path: '/', status: 503 }]
    }
  ]
}

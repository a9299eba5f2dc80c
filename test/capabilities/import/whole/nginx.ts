import { readNginx } from '../../../../src/capabilities/import/nginx/read.js'
import type { WholeFiles } from './shape.js'

const HEADERS = `
    proxy_http_version 1.1;
    proxy_set_header Host $host;
    proxy_set_header X-Real-IP $remote_addr;
    proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
    proxy_set_header X-Forwarded-Proto $scheme;`

/** Sixteen files of nginx. */
export const NGINX: WholeFiles = {
  read: readNginx,
  file: 'nginx.conf',
  files: [
    {
      name: 'a single-page application with its API',
      text: String.raw`server {
  listen 80;
  server_name app.example.test;
  root /srv/dist;
  index index.html;
  gzip on;
  gzip_types text/css application/javascript application/json;
  location / {
    try_files $uri $uri/ /index.html;
  }
  location /api/ {
    proxy_pass http://127.0.0.1:4000/;${HEADERS}
  }
  location ~* \.(?:css|js|svg|woff2)$ {
    expires 1y;
    add_header Cache-Control "public, immutable";
    access_log off;
  }
}`,
      visits: [
        { host: 'app.example.test', path: '/orders/7', status: 200, body: 'home' },
        { host: 'app.example.test', path: '/api/orders?page=2', status: 200, target: '/orders?page=2' }
      ]
    },
    {
      name: 'HTTPS with a redirect from HTTP',
      text: `server {
  listen 80 default_server;
  server_name _;
  return 301 https://$host$request_uri;
}
server {
  listen 443 ssl http2;
  server_name shop.example.test;
  ssl_certificate /etc/ssl/site.pem;
  ssl_certificate_key /etc/ssl/site.key;
  ssl_protocols TLSv1.2 TLSv1.3;
  ssl_session_cache shared:SSL:10m;
  ssl_session_timeout 1d;
  ssl_prefer_server_ciphers off;
  add_header Strict-Transport-Security "max-age=31536000" always;
  client_max_body_size 20m;
  location / {
    proxy_pass http://127.0.0.1:8080;${HEADERS}
  }
}`,
      visits: [
        { host: 'shop.example.test', path: '/a?b=1', status: 308, location: 'https://shop.example.test/a?b=1' },
        { port: 443, host: 'shop.example.test', path: '/a', status: 200, target: '/a' }
      ]
    },
    {
      name: 'a file of a proxy for containers, whose upstream is set by variables',
      text: `server {
  listen 443 ssl;
  server_name notes.example.test;
  ssl_certificate /etc/ssl/site.pem;
  ssl_certificate_key /etc/ssl/site.key;
  client_max_body_size 0;
  location / {
    include /config/proxy.conf;
    resolver 127.0.0.11 valid=30s;
    set $upstream_app notes;
    set $upstream_port 8080;
    set $upstream_proto http;
    proxy_pass $upstream_proto://$upstream_app:$upstream_port;
  }
  location ~ (/notes)?/api {
    include /config/proxy.conf;
    set $upstream_app notes;
    set $upstream_port 8081;
    proxy_pass http://$upstream_app:$upstream_port;
  }
}`,
      others: {
        '/config/proxy.conf': `proxy_buffers 32 4k;\nproxy_read_timeout 240;\nproxy_redirect http:// $scheme://;\nproxy_set_header Host $host;\nproxy_set_header X-Real-IP $remote_addr;\nproxy_set_header X-Forwarded-Proto $scheme;\n`
      },
      visits: [{ port: 443, host: 'notes.example.test', path: '/note/1', status: 200, target: '/note/1' }]
    },
    {
      name: 'WebSockets by a map of the Upgrade field',
      text: `map $http_upgrade $connection_upgrade {
  default upgrade;
  '' close;
}
upstream chat {
  least_conn;
  server 10.0.0.11:3000 max_fails=3 fail_timeout=10s;
  server 10.0.0.12:3000;
  keepalive 16;
}
server {
  listen 80;
  server_name chat.example.test;
  location / {
    proxy_pass http://chat;
    proxy_http_version 1.1;
    proxy_set_header Upgrade $http_upgrade;
    proxy_set_header Connection $connection_upgrade;
    proxy_set_header Host $host;
    proxy_read_timeout 1h;
  }
}`,
      visits: [{ host: 'chat.example.test', path: '/room?id=1', status: 200, target: '/room?id=1' }]
    },
    {
      name: 'a login with a limit',
      text: `limit_req_zone $binary_remote_addr zone=login:10m rate=10r/m;
server {
  listen 80;
  server_name id.example.test;
  location = /login {
    limit_req zone=login burst=5 nodelay;
    limit_req_status 429;
    proxy_pass http://127.0.0.1:5000;${HEADERS}
  }
  location / {
    proxy_pass http://127.0.0.1:5000;${HEADERS}
  }
}`,
      visits: [
        { host: 'id.example.test', path: '/login', status: 200, target: '/login' },
        { host: 'id.example.test', path: '/', status: 200, target: '/' }
      ]
    },
    {
      name: 'a map of hosts to tenants',
      text: String.raw`map $host $tenant {
  default public;
  blue.example.test blue;
  ~^(?<name>[a-z]+)\.shops\.test$ shops;
}
server {
  listen 80;
  server_name *.example.test *.shops.test;
  location / {
    proxy_pass http://127.0.0.1:9000;
    proxy_set_header Host $host;
    proxy_set_header X-Tenant $tenant;
  }
}`,
      visits: [{ host: 'blue.example.test', path: '/x', status: 200, target: '/x' }]
    },
    {
      name: 'documents with pages for errors and a password',
      text: String.raw`server {
  listen 8080;
  server_name docs.example.test;
  root /srv/docs;
  error_page 404 /404.html;
  error_page 500 502 503 504 /50x.html;
  location = /50x.html {
    root /srv/errors;
  }
  location /internal/ {
    auth_basic "internal";
    auth_basic_user_file /etc/ssl/htpasswd;
    autoindex on;
  }
  location ~ /\.(?!well-known) {
    deny all;
  }
}`,
      visits: [
        { port: 8080, host: 'docs.example.test', path: '/', status: 200, body: 'home' },
        { port: 8080, host: 'docs.example.test', path: '/internal/', status: 401 },
        { port: 8080, host: 'docs.example.test', path: '/.git/config', status: 403 }
      ]
    },
    {
      name: 'a host without www and old addresses',
      text: String.raw`server {
  listen 80;
  server_name www.example.test;
  return 301 $scheme://example.test$request_uri;
}
server {
  listen 80;
  server_name example.test;
  rewrite "^/blog/(\d{4})/(.*)$" /archive/$1/$2 permanent;
  location = /feed { return 302 /rss.xml; }
  location /old-shop/ { return 410; }
  location / {
    proxy_pass http://unix:/run/web.sock;
    proxy_set_header Host $http_host;
  }
}`,
      visits: [
        { host: 'www.example.test', path: '/a', status: 301, location: 'http://example.test/a' },
        { host: 'example.test', path: '/blog/2024/x', status: 301, location: '/archive/2024/x' },
        { host: 'example.test', path: '/old-shop/x', status: 410 },
        { host: 'example.test', path: '/x', status: 200, target: '/x' }
      ]
    },
    {
      name: 'several services below paths',
      text: `upstream users { server 10.1.0.1:8080; server 10.1.0.2:8080 backup; }
upstream orders { ip_hash; server 10.1.0.3:8080; server 10.1.0.4:8080; }
server {
  listen 80;
  server_name api.example.test;
  proxy_connect_timeout 5s;
  proxy_read_timeout 60s;
  proxy_set_header Host $host;
  proxy_set_header X-Request-ID $request_id;
  location /v1/users/ { proxy_pass http://users/; }
  location /v1/orders/ { proxy_pass http://orders/orders/; }
  location = /health { access_log off; return 200 "ok"; }
  location / { return 404; }
}`,
      visits: [
        { host: 'api.example.test', path: '/v1/users/7', status: 200, target: '/7' },
        { host: 'api.example.test', path: '/v1/orders/7', status: 200, target: '/orders/7' },
        { host: 'api.example.test', path: '/health', status: 200, body: 'ok' },
        { host: 'api.example.test', path: '/x', status: 404 }
      ]
    },
    {
      name: 'a whole nginx.conf with its http block',
      text: `user www-data;
worker_processes auto;
pid /run/nginx.pid;
events { worker_connections 1024; multi_accept on; }
http {
  include /etc/nginx/mime.types;
  default_type application/octet-stream;
  sendfile on;
  tcp_nopush on;
  keepalive_timeout 65;
  server_tokens off;
  log_format main '$remote_addr "$request" $status';
  access_log /var/log/nginx/access.log main;
  error_log /var/log/nginx/error.log warn;
  gzip on;
  gzip_min_length 1000;
  gzip_proxied any;
  server {
    listen 80 default_server;
    listen [::]:80 default_server;
    server_name localhost;
    location / { proxy_pass http://127.0.0.1:3000; proxy_set_header Host $host; }
  }
}`,
      others: { '/etc/nginx/mime.types': 'types { text/html html; text/css css; }' },
      visits: [{ host: 'localhost', path: '/a', status: 200, target: '/a' }]
    },
    {
      name: 'a door with addresses and a page for maintenance',
      text: `server {
  listen 80;
  server_name admin.example.test;
  allow 127.0.0.0/8;
  allow 10.0.0.0/8;
  deny all;
  location / {
    proxy_pass http://127.0.0.1:8000;${HEADERS}
  }
  location /static/ {
    alias /srv/static/;
    expires 30d;
  }
  location /maintenance { return 503; }
}`,
      visits: [
        { host: 'admin.example.test', path: '/x', status: 200, target: '/x' },
        { host: 'admin.example.test', path: '/static/a.txt', status: 200, body: 'static' },
        { host: 'admin.example.test', path: '/maintenance', status: 503 }
      ]
    },
    {
      name: 'fields for browsers, and for other origins',
      text: `server {
  listen 80;
  server_name cors.example.test;
  add_header X-Frame-Options SAMEORIGIN;
  add_header X-Content-Type-Options nosniff always;
  add_header Referrer-Policy strict-origin-when-cross-origin;
  location / {
    if ($request_method = OPTIONS) {
      add_header Access-Control-Allow-Origin "https://app.example.test";
      add_header Access-Control-Allow-Methods "GET, POST";
      return 204;
    }
    proxy_pass http://127.0.0.1:3000;
    proxy_hide_header X-Powered-By;
    proxy_set_header Host $host;
  }
}`,
      visits: [{ host: 'cors.example.test', path: '/x', status: 200, target: '/x' }]
    },
    {
      name: 'an upstream with TLS below a path',
      text: `server {
  listen 80;
  server_name edge.example.test;
  location /cdn/ {
    proxy_pass https://cdn.internal.test/assets/;
    proxy_ssl_server_name on;
    proxy_ssl_name cdn.internal.test;
    proxy_set_header Host cdn.internal.test;
    proxy_buffering off;
  }
  location / { root /srv/dist; }
}`,
      visits: [
        { host: 'edge.example.test', path: '/cdn/a.css', status: 200, target: '/assets/a.css' },
        { host: 'edge.example.test', path: '/', status: 200, body: 'home' }
      ]
    },
    {
      name: 'a server for downloads',
      text: String.raw`server {
  listen 80;
  server_name files.example.test;
  root /srv/docs;
  autoindex on;
  autoindex_exact_size off;
  charset utf-8;
  location ~* \.(iso|zip)$ { add_header Content-Disposition attachment; }
  location = /robots.txt { return 200 "User-agent: *\nDisallow: /\n"; }
}`,
      visits: [
        { host: 'files.example.test', path: '/internal/', status: 200, body: 'secret.txt' },
        { host: 'files.example.test', path: '/robots.txt', status: 200, body: 'Disallow: /' }
      ]
    },
    {
      name: 'gRPC beside a page',
      text: `upstream grpc_service { server 10.2.0.1:50051; }
server {
  listen 443 ssl http2;
  server_name rpc.example.test;
  ssl_certificate /etc/ssl/site.pem;
  ssl_certificate_key /etc/ssl/site.key;
  location /shop.Orders/ {
    grpc_pass grpc://grpc_service;
    grpc_read_timeout 1h;
  }
  location / { return 404; }
}`,
      visits: [{ port: 443, host: 'rpc.example.test', path: '/x', status: 404 }]
    },
    {
      name: 'PHP beside files, which is not converted',
      text: String.raw`server {
  listen 80;
  server_name php.example.test;
  root /srv/dist;
  index index.php index.html;
  location / { try_files $uri $uri/ =404; }
  location ~ \.php$ {
    include fastcgi_params;
    fastcgi_pass unix:/run/php/php-fpm.sock;
    fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;
  }
}`,
      others: { fastcgi_params: 'fastcgi_param QUERY_STRING $query_string;\n' },
      isPart: true,
      visits: [{ host: 'php.example.test', path: '/index.php', status: 503 }]
    }
  ]
}

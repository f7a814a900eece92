// Attacks of a hostile page against the daemon at `base`; returns everything that it could read.
async function attack(base) {
  const chat = JSON.stringify({model: 'echo:1', messages: [{role: 'user', content: 'Hi'}]});
  const got = {};
  const patient = promise =>
    Promise.race([promise, new Promise(done => setTimeout(() => done('nothing'), 4000))]);

  const read = async (name, path, init) => {
    const reading = async () => {
      const answer = await fetch(base + path, init);
      return `${answer.type} ${answer.status} ${await answer.text()}`;
    };
    try { got[name] = await patient(reading()); } catch (error) { got[name] = 'refused'; }
  };
  const post = {method: 'POST', body: chat};
  const blind = {mode: 'no-cors', referrerPolicy: 'no-referrer'};
  const json = {'content-type': 'application/json'};
  const typed = new Blob([chat], {type: 'text/plain;application/json'});
  await Promise.all([
    read('get', '/v1/models'),
    read('get with credentials', '/ingle/v1/status', {credentials: 'include'}),
    read('simple post', '/v1/chat/completions', post),
    read('form post', '/api/generate', {...post, body: new URLSearchParams({model: 'echo:1'})}),
    read('json post', '/v1/chat/completions', {...post, headers: json}),
    read('get with a key', '/v1/models', {headers: {authorization: 'Bearer x'}}),
    read('delete', '/ingle/v1/models/echo:1', {method: 'DELETE'}),
    read('blind get', '/health/ready?model=echo:1', blind),
    read('blind post', '/v1/chat/completions', {...post, ...blind}),
    read('blind load', '/ingle/v1/load', {...blind, method: 'POST', body: '{"model":"echo:1"}'}),
    read('blind forget', '/ingle/v1/forget', {...blind, method: 'POST', body: '{"all":true}'}),
    read('blind keepalive', '/ingle/v1/shutdown', {...blind, method: 'POST', keepalive: true}),
    read('blind blob', '/v1/embeddings', {...blind, method: 'POST', body: typed}),
  ]);
  navigator.sendBeacon(base + '/ingle/v1/shutdown', chat);

  const element = async (tag, attribute, path) => {
    got[tag] = await patient(new Promise(done => {
      const one = document.createElement(tag);
      one.onerror = () => done('refused');
      one.onload = () => {
        if (tag !== 'iframe') return done('loaded');
        try { done('read ' + one.contentDocument.body.textContent); } catch { done('refused'); }
      };
      one.referrerPolicy = 'no-referrer';
      if (tag === 'link') one.rel = 'stylesheet';
      one[attribute] = base + path;
      document.body.append(one);
    }));
  };
  await Promise.all([
    element('img', 'src', '/health/ready?model=echo:1'),
    element('script', 'src', '/v1/models'),
    element('link', 'href', '/ingle/v1/models'),
    element('iframe', 'src', '/ingle/v1/status'),
    element('audio', 'src', '/metrics'),
  ]);

  for (const type of ['application/x-www-form-urlencoded', 'multipart/form-data', 'text/plain']) {
    const form = document.createElement('form'), sink = document.createElement('iframe');
    const field = document.createElement('input');
    sink.name = 'sink ' + type;
    Object.assign(form, {method: 'POST', enctype: type, target: sink.name});
    form.action = base + '/v1/chat/completions';
    // In text/plain a field is sent as `name=value`, which forms a complete JSON object.
    field.name = chat.slice(0, -1) + ',"x":"';
    field.value = '"}';
    form.append(field);
    document.body.append(sink, form);
    form.submit();
  }

  const listen = async (name, open) => {
    got[name] = await patient(new Promise(done => {
      const one = open();
      one.onopen = () => done('open');
      one.onmessage = event => done('read ' + event.data);
      one.onerror = () => done('refused');
    })).catch(() => 'refused');
  };
  await Promise.all([
    listen('websocket', () => new WebSocket(base.replace('http', 'ws') + '/v1/responses')),
    listen('event source', () => new EventSource(base + '/ingle/v1/events')),
  ]);
  try {
    await patient(navigator.serviceWorker.register(base + '/v1/models'));
    got['service worker'] = 'registered';
  } catch (error) { got['service worker'] = 'refused'; }
  await new Promise(done => setTimeout(done, 500));
  return JSON.stringify(got);
}

// The requests of a page that may use the daemon.
async function visit(base) {
  const got = {};
  const body = JSON.stringify({model: 'echo:1', messages: [{role: 'user', content: 'Hi'}]});
  const ask = async (name, path, init) => {
    try {
      const answer = await fetch(base + path, init);
      got[name] = `${answer.type} ${answer.status} ${await answer.text()}`;
    } catch (error) { got[name] = 'refused'; }
  };
  await ask('get', '/v1/models');
  const json = {'content-type': 'application/json'};
  await ask('json post', '/v1/chat/completions', {method: 'POST', headers: json, body});
  await ask('simple post', '/v1/chat/completions', {method: 'POST', body});
  return JSON.stringify(got);
}

// The page sends its sandboxed frame a message to attack, since it cannot access the frame.
addEventListener('message', async event => {
  if (event.data.base) parent.postMessage({got: await attack(event.data.base)}, '*');
});
function attackFromSandbox(base) {
  return new Promise(done => {
    const frame = document.createElement('iframe');
    frame.sandbox = 'allow-scripts allow-forms';
    frame.src = location.href;
    frame.onload = () => frame.contentWindow.postMessage({base}, '*');
    addEventListener('message', event => event.data.got && done(event.data.got));
    document.body.append(frame);
  });
}
